"""The archive: a file that gets each pruned job as a line of JSON before the job is removed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Self

from windlass.errors import WindlassError
from windlass.model import Archived, Job

BLOCK = 65_536
"""Bytes that are read at a time to find the end of the last whole line."""
_FACTS = [item.name for item in fields(Job) if item.name not in ("args_json", "result_json")]


def as_line(archived: Archived) -> str:
    """A job as a line of the archive: its fields and attempts, arguments and result as JSON instead of JSON in text."""
    job = archived.job
    facts = {name: getattr(job, name) for name in _FACTS}
    facts |= {"args": job.args, "result": job.result, "attempts": list(archived.attempts)}
    return json.dumps(facts, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class ArchiveFile:
    """Appends JSON lines, which are on disk before the page is removed from the database. Several processes may append to one file.

    If the removal fails after that (the database went away, a deadlock made it start over), the next run writes the page
    again: a reader takes the last line of each (id, generation). Half a line that a power cut or a kill left at the end of the file is cut off
    before the next line is written: its job was not removed, since that comes after the sync, and is written again.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it; raises OSError."""
        self._path = path
        self.written = 0
        self._file = path.open("a+b", buffering=0)
        try:
            self._sync_folder()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def append(self, jobs: Sequence[Archived]) -> None:
        """Write jobs to the disk. If that fails, nothing of them stays in the file."""
        text = "".join(f"{as_line(job)}\n" for job in jobs).encode()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)  # another process must not write behind the size read here
            try:
                self._write(text)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            raise WindlassError(
                f"the archive {self._path} could not be written ({error.strerror}); "
                f"the jobs of this page were kept, {self.written:,} before them are archived and removed"
            ) from error
        self.written += len(jobs)

    def _write(self, text: bytes) -> None:
        size = self._whole_size()
        try:
            while text:
                text = text[self._file.write(text) :]
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):
                self._file.truncate(size)  # half a line would spoil the file for every reader
            raise

    def _whole_size(self) -> int:
        """The size of the file, whose last line is whole from now on."""
        size = self._file.seek(0, os.SEEK_END)
        unread, tail = size, b""
        while unread and b"\n" not in tail:
            begin = max(0, unread - BLOCK)
            tail = self._read(begin, unread - begin) + tail
            unread = begin
        half = tail.rpartition(b"\n")[2]
        if not half:
            return size
        if _is_json(
            half
        ):  # a whole line without its end, which may be of a job that is gone: an editor left it so
            self._file.write(b"\n")
            return size + 1
        self._file.truncate(size - len(half))
        return size - len(half)

    def _read(self, begin: int, length: int) -> bytes:
        self._file.seek(begin)
        found = b""
        while len(found) < length and (more := self._file.read(length - len(found))):
            found += more
        return found

    def _sync_folder(self) -> None:
        """Sync the folder: a new file survives a power cut only if its folder was written, too."""
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
