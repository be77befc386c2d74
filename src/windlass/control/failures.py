"""Failures: failed jobs grouped by their cause."""

from __future__ import annotations

from dataclasses import replace

from windlass.control.given import check_texts
from windlass.control.noun import Noun, off_loop
from windlass.model.failures import Failures


class FailureControl(Noun):
    """Groups failed jobs."""

    def list(self, *, kind: str | None = None, phase: str | None = None) -> Failures:
        """Failed jobs by kind, phase, type and place of the error, over the last hour, day and week; the latest group first.

        The newest 100,000 failed jobs are searched at most, as many as can be read in a short time: ``searched`` says how many, and ``more``
        whether there are others.
        """
        check_texts(kind=kind, phase=phase)
        found = self._store.failures.read(self._actor.scope.parameters(), kind=kind, phase=phase)
        groups = [replace(group, message=self._payload.words(group.message)) for group in found.groups]
        return Failures(groups, found.searched, found.more)

    list_async = off_loop(list)
