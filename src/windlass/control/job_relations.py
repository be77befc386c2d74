"""The jobs around a job, folded: jobs of one level, kind and state are one group, so that a fan-out of thousands stays small."""

from __future__ import annotations

from collections import Counter

from windlass.control.job_reading import JobReading
from windlass.control.job_views import RelatedEdge, RelatedGroup
from windlass.control.job_views import RelatedJobs as RelatedJobs
from windlass.control.noun import off_loop


class JobRelations(JobReading):
    """Shows the jobs that a job comes from and leads to."""

    def related(self, job_id: str) -> RelatedJobs:
        """The jobs that a job waits for or was made of, and those that wait for it or are made of it, six levels far, through dependencies,
        batches and rules; at most 2,000 edges of each level."""
        self._require_job(job_id)
        self._store.jobs.get(job_id)
        found = self._store.relations.read(job_id, self._actor.scope.parameters())
        members: dict[tuple[int, str, str], list[str]] = {}
        for job in found.jobs.values():
            members.setdefault((job.level, job.kind, job.state), []).append(job.id)
        keys = sorted(members)
        groups = [
            RelatedGroup(
                level=level,
                kind=kind,
                state=state,
                count=len(members[level, kind, state]),
                sample=min(members[level, kind, state]),
            )
            for level, kind, state in keys
        ]
        place = {job_id: i for i, key in enumerate(keys) for job_id in members[key]}
        counts = Counter((place[parent], place[child]) for parent, child in found.edges)
        edges = [RelatedEdge(parent=a, child=b, count=count) for (a, b), count in sorted(counts.items())]
        return RelatedJobs(groups=groups, edges=edges, is_cut=found.is_cut)

    related_async = off_loop(related)
