"""Acting on all jobs of a filter."""

from __future__ import annotations

from windlass.control.job_reading import AnyFilter
from windlass.control.noun import Noun, off_loop
from windlass.control.operations import OperationControl, OperationHandle


class JobBulk(Noun):
    """Begins operations: acts on many jobs that are stored, counted first, and survive a restart."""

    def retry_many(
        self,
        only: AnyFilter = None,
        *,
        reason: str | None = None,
        dependents: bool = False,
        all: bool = False,
        dry_run: bool = False,
    ) -> OperationHandle:
        """Retry all jobs that a filter finds: ``app.jobs.retry_many("state:failed kind:report", reason="mended").wait()``. An empty filter is refused
        unless ``all`` is True; see ``app.operations.start``."""
        options = {"dependents": True} if dependents else None
        return self._operations.start("retry", only, reason, options=options, all=all, dry_run=dry_run)

    def cancel_many(
        self,
        only: AnyFilter = None,
        *,
        reason: str,
        all: bool = False,
        dry_run: bool = False,
    ) -> OperationHandle:
        """Cancel all jobs that a filter finds and that have not ended. An empty filter is refused unless ``all`` is True; see
        ``app.operations.start``."""
        return self._operations.start("cancel", only, reason, all=all, dry_run=dry_run)

    retry_many_async = off_loop(retry_many)
    cancel_many_async = off_loop(cancel_many)

    @property
    def _operations(self) -> OperationControl:
        return OperationControl(self._source, self._actor)
