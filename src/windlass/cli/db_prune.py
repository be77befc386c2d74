"""Pruning with an archive and with signs of life."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from windlass.cli.failures import say
from windlass.errors import WindlassError
from windlass.model import Job, Retention
from windlass.store import Store

SPEAK_AFTER = 2.0
SPEAK_EVERY = 5.0


def prune_store(store: Store, keep: Retention, archive: Path | None) -> dict[str, int]:
    """Remove what is past its time; answers how many jobs went and how many of them the archive has."""
    if archive is None:
        before = _ended(store)
        with _signs_of_life(lambda: max(0, before - _ended(store))):
            # Dropping a day's partition costs the same for one job as for a million, so it goes first.
            dropped = store.db.drop_history(keep) if hasattr(store.db, "drop_history") else 0
            return {"removed": dropped + store.upkeep.prune(keep), "archived": 0}
    with _Archive(archive) as file, _signs_of_life(lambda: file.written):
        # No partition is dropped here: its jobs would be gone before anybody wrote them down.
        removed = store.upkeep.prune(keep, archive=file.append)
        return {"removed": removed, "archived": file.written}


def as_record(job: Job) -> dict[str, Any]:
    """A job as a line of the archive: its fields, with arguments and result as JSON instead of JSON in text."""
    facts = asdict(job)
    del facts["args_json"], facts["result_json"]
    return {**facts, "args": job.args, "result": job.result}


class _Archive:
    """JSON lines, appended; on disk before the batch is removed from the database.

    If the removal fails after that (the database went away, a deadlock made it start over), the batch is written again
    next time: a reader takes the last line of each (id, generation).
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

    def append(self, jobs: Sequence[Job]) -> None:
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
        """A new file is only there after a power cut if its folder was written, too."""
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _ended(store: Store) -> int:
    return sum(c.completed + c.failed + c.cancelled for c in store.phases.counts().values())


@contextmanager
def _signs_of_life(gone: Callable[[], int]) -> Iterator[None]:
    """Say how far it is while the block runs, if it runs long."""
    is_over = threading.Event()

    def speak() -> None:
        began = time.monotonic()
        pause = SPEAK_AFTER
        while not is_over.wait(pause):
            pause = SPEAK_EVERY
            try:
                count = gone()
            except WindlassError:
                continue  # the one that counts is raised where the work is done
            say(f"pruning: about {count:,} jobs removed after {time.monotonic() - began:.0f} s")

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        is_over.set()
        speaker.join()
