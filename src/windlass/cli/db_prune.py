"""Prunes with an archive, reports the progress, and records in the audit trail what was removed."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click

from windlass.audit.record import AuditRecord
from windlass.cli.control import os_actor
from windlass.cli.exit_codes import say
from windlass.features import Store
from windlass.model import Retention
from windlass.upkeep.archive import ArchiveFile

SPEAK_AFTER = 2.0
SPEAK_EVERY = 5.0


def prune_store(store: Store, keep: Retention, archive: Path | None, reason: str | None) -> dict[str, int]:
    """Remove jobs past their retention; returns how many were removed and how many were archived."""
    with _SignsOfLife() as progress:
        try:
            if archive is None:
                return {"removed": store.upkeep.prune(keep, progress=progress), "archived": 0}
            with _opened(archive) as file:
                removed = store.upkeep.prune(keep, archive=file.append, progress=progress)
                return {"removed": removed, "archived": file.written}
        finally:
            if progress.removed:  # also where Ctrl-C or an error ended it
                _record(store, keep, archive, reason, progress.removed)


def _record(store: Store, keep: Retention, archive: Path | None, reason: str | None, removed: int) -> None:
    kept = {state: None if time is None else str(time) for state, time in asdict(keep).items()}
    after = {"removed": removed, "keep": kept, "archive": None if archive is None else str(archive)}
    act = AuditRecord(
        actor=os_actor(), act="db.prune", target="database", name="jobs", reason=reason, after=after
    )
    store.db.transact(lambda tx: store.audit.write(tx, act))


def _opened(path: Path) -> ArchiveFile:
    try:
        return ArchiveFile(path)
    except OSError as error:
        raise click.BadParameter(
            f"{path}: {error.strerror}", param_hint="--archive (retention.archive)"
        ) from error


class _SignsOfLife:
    """Reports the progress of a long prune: nothing for two seconds, then a line every five."""

    def __enter__(self) -> _SignsOfLife:
        self._began = time.monotonic()
        self.removed = 0
        self._next = self._began + SPEAK_AFTER
        return self

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, removed: int) -> None:
        now = time.monotonic()
        self.removed = removed
        if now >= self._next:
            self._next = now + SPEAK_EVERY
            say(f"pruning: {removed:,} jobs removed after {now - self._began:.0f} s")
