"""The jobs around a job, folded: jobs of one level, kind and state are one group, so that a fan-out of thousands stays small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from windlass.control.job_reading import JobReading
from windlass.control.noun import off_loop


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedGroup:
    """Jobs of one kind and state on one level: 0 is the job itself, -1 are the jobs that lead to it, 1 those behind it, and so on. ``sample`` is
    the oldest of them."""

    level: int
    kind: str
    state: str
    count: int
    sample: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedEdge:
    """How many edges lead from one group to another; both are places in the list of groups."""

    parent: int
    child: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelatedJobs:
    """The groups by level, kind and state, with the edges between them. ``is_cut``: there are more jobs than were read."""

    groups: Sequence[RelatedGroup]
    edges: Sequence[RelatedEdge]
    is_cut: bool


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
