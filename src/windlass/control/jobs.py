"""Jobs: everything that can be seen of them and done to them. One file for each part: reading, acting, reasons."""

from __future__ import annotations

from windlass.control.job_bulk import JobBulk
from windlass.control.job_edit import JobEdit
from windlass.control.job_events import JobEvents
from windlass.control.job_relations import JobRelations
from windlass.control.job_stack import JobStacks
from windlass.control.job_why import JobWhy


class JobControl(JobEvents, JobWhy, JobEdit, JobBulk, JobStacks, JobRelations):
    """Shows, searches, cancels, retries and changes jobs."""
