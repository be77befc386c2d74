"""Decides whether the owner of a lock has ended, so that the instance that has claimed the job may take the lock over.

The database is the authority: a claim is made only after the claim before it ended. An instance that is killed leaves its locks in Redis
until their TTL ends, long after the database has declared the instance dead and another instance has claimed its jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.locks.contract import Owner


class LockOwners:
    """What the database says about the owners of locks. ``is_dead`` is ``Instances.is_dead``; it is called once for each owner, so use a
    new object for each round of locks."""

    def __init__(self, is_dead: Callable[[str], bool | None]) -> None:
        self._is_dead = is_dead
        self._known: dict[str, bool | None] = {}

    def is_over(self, owner: Owner, claim: int) -> bool:
        """Whether the owner of a lock has ended, as far as the job is concerned that is held here under the token ``claim``.

        The lock of a living instance is never taken over. Nor is a lock whose worker the database does not know, unless the lock names an
        older claim of the job: locks that an application opens itself have workers that are no instances.
        """
        if owner.claim is not None and owner.claim >= claim:
            return False  # the job was claimed again meanwhile: it is no longer held here
        if owner.worker not in self._known:
            self._known[owner.worker] = self._is_dead(owner.worker)
        is_dead = self._known[owner.worker]
        return owner.claim is not None if is_dead is None else is_dead
