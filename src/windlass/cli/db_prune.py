"""Prunes with an archive and reports the progress."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from windlass.cli.exit_codes import say
from windlass.errors import WindlassError
from windlass.features import Store
from windlass.model import Archived, Retention

SPEAK_AFTER = 2.0
SPEAK_EVERY = 5.0


def prune_store(store: Store, keep: Retention, archive: Path | None) -> dict[str, int]:
    """Remove jobs past their retention; returns how many were removed and how many were archived."""
    with _SignsOfLife() as progress:
        if archive is None:
            return {"removed": store.upkeep.prune(keep, progress=progress), "archived": 0}
        with _Archive(archive) as file:
            removed = store.upkeep.prune(keep, archive=file.append, progress=progress)
            return {"removed": removed, "archived": file.written}


def as_record(archived: Archived) -> dict[str, Any]:
    """A job as a line of the archive: its fields and attempts, arguments and result as JSON instead of JSON in text."""
    facts = asdict(archived.job)
    del facts["args_json"], facts["result_json"]
    attempts = [asdict(attempt) for attempt in archived.attempts]
    return {**facts, "args": archived.job.args, "result": archived.job.result, "attempts": attempts}


class _Archive:
    """Appends JSON lines, which are on disk before the batch is removed from the database.

    If the removal fails after that (the database went away, a deadlock made it start over), the next run writes the batch
    again: a reader takes the last line of each (id, generation).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.written = 0

    def __enter__(self) -> _Archive:
        try:
            self._file = self._path.open("ab", buffering=0)
            self._sync_folder()
        except OSError as error:
            raise click.BadParameter(f"{self._path}: {error.strerror}", param_hint="--archive") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, jobs: Sequence[Archived]) -> None:
        lines = [json.dumps(as_record(job), default=str, ensure_ascii=False) for job in jobs]
        text = "".join(f"{line}\n" for line in lines).encode()
        size = self._file.seek(0, os.SEEK_END)
        try:
            while text:
                text = text[self._file.write(text) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(size)  # half a line would spoil the file for every reader
            raise WindlassError(
                f"the archive {self._path} could not be written ({error.strerror}); "
                f"the jobs of this batch were kept, {self.written:,} before them are archived and removed"
            ) from error
        self.written += len(jobs)

    def _sync_folder(self) -> None:
        """Sync the folder: a new file survives a power cut only if its folder was written, too."""
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class _SignsOfLife:
    """Reports the progress of a long prune: nothing for two seconds, then a line every five."""

    def __enter__(self) -> _SignsOfLife:
        self._began = time.monotonic()
        self._next = self._began + SPEAK_AFTER
        return self

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, removed: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SPEAK_EVERY
            say(f"pruning: {removed:,} jobs removed after {now - self._began:.0f} s")
