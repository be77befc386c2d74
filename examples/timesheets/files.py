"""Files of reports: written under a temporary name, cut back to the checkpoint on resume, renamed at the end.

A job's id names its file, never a text of a request. Each attempt of a job writes to a file of its own, so that a process that was taken for dead
and still writes cannot touch the file of its successor.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID


@dataclass(frozen=True)
class ReportFolder:
    """The folder of all reports."""

    path: Path

    @classmethod
    def from_environment(cls) -> ReportFolder:
        """The folder of ``TIMESHEETS_FOLDER``."""
        path = Path(os.environ.get("TIMESHEETS_FOLDER", "timesheet-reports")).resolve()
        path.mkdir(parents=True, exist_ok=True)
        return cls(path)

    def of(self, job: str) -> Path:
        """The finished file of a job; ``ValueError`` for a text that is no job id in its usual form."""
        if str(UUID(job)) != job:
            raise ValueError(f"{job!r} is not the id of a job")
        return self.path / f"{job}.csv"

    def parts(self, job: str = "*") -> list[Path]:
        """The unfinished files of a job, or of all."""
        return sorted(self.path.glob(f".{job}.*.part"))

    def discard(self, job: str) -> None:
        """Delete all files of a job."""
        for path in (*self.parts(job), self.of(job)):
            path.unlink(missing_ok=True)


class Part:
    """The unfinished file of one attempt of a job."""

    def __init__(self, folder: ReportFolder, job: str) -> None:
        self._folder, self._job = folder, job
        self._path = folder.path / f".{job}.{secrets.token_hex(8)}.part"

    def begin(self, size: int) -> None:
        """Begin with the first ``size`` bytes of what an earlier attempt wrote: up to its last checkpoint."""
        earlier = [path for path in self._folder.parts(self._job) if path != self._path]
        finished = self._folder.of(self._job)
        source = next((p for p in (*earlier, finished) if p.exists() and p.stat().st_size >= size), None)
        if source is None and size:
            raise FileNotFoundError(
                f"the file of job {self._job} is gone, and {size:,} bytes of it were written"
            )
        with self._path.open("wb") as target:
            if source is not None and size:
                with source.open("rb") as old:
                    shutil.copyfileobj(old, target)
                target.truncate(size)
            _flush(target.fileno())
        for path in earlier:
            path.unlink(missing_ok=True)

    def append(self, size: int, data: bytes) -> int:
        """Write data after the first ``size`` bytes, and nothing else after them; returns the new size. It is on disk on return."""
        with self._path.open("r+b") as file:
            file.truncate(size)
            file.seek(size)
            file.write(data)
            file.flush()
            _flush(file.fileno())
        return size + len(data)

    def finish(self) -> str:
        """Give the file its name; returns the SHA-256 of its bytes."""
        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._path.replace(self._folder.of(self._job))
        folder = os.open(self._folder.path, os.O_RDONLY)
        try:
            _flush(folder)
        finally:
            os.close(folder)
        return digest


def _flush(number: int) -> None:
    os.fsync(number)
