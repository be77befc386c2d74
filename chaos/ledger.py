"""The oracle: what was accepted, what was started, what took effect; each written once and never changed.

    acknowledged   a file: ids whose enqueue returned, flushed to the disk before the next step
    starts         a file: one line per start of a handler, appended by whoever runs it, before it does anything
    effects        a table beside the jobs: rows that handlers commit with the end of their job

The files survive every process; the table says what the database really took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from windlass.model import Lease

FOLDER = "CHAOS_FOLDER"
INSERT_EFFECT = {
    "postgres": "INSERT INTO chaos_effect (job, token, attempt, pid) VALUES (%s, %s, %s, %s)",
    "sqlite": "INSERT INTO chaos_effect (job, token, attempt, pid) VALUES (?, ?, ?, ?)",
}
CREATE_EFFECTS = """
CREATE TABLE IF NOT EXISTS chaos_effect (
    job text NOT NULL, token bigint NOT NULL, attempt integer NOT NULL, pid integer NOT NULL
)
"""
_files: dict[int, int] = {}


class Start(NamedTuple):
    """One run of a handler."""

    job: str
    token: int
    kind: str
    attempt: int
    crashes: int
    pid: int
    at: float
    is_suspect: bool


def note_start(lease: Lease) -> None:
    """Write down that a job is run now, in this process; one write, so that lines of many processes do not mix."""
    pid = os.getpid()
    if pid not in _files:
        path = Path(os.environ[FOLDER]) / "starts"
        _files[pid] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    start = Start(
        lease.id, lease.token, lease.kind, lease.attempt, lease.crashes, pid, time.time(), lease.is_suspect
    )
    os.write(_files[pid], f"{' '.join(map(str, start))}\n".encode())


class Ledger:
    """The files of one experiment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._acknowledged = os.open(folder / "acknowledged", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)

    def acknowledge(self, ids: Iterable[str]) -> None:
        """These were accepted: from here on losing one is a violation."""
        os.write(self._acknowledged, "".join(f"{job}\n" for job in ids).encode())
        os.fsync(self._acknowledged)

    def acknowledged(self) -> list[str]:
        return (self.folder / "acknowledged").read_text().split()

    def starts(self) -> list[Start]:
        """Every start so far, in the order it was written."""
        path = self.folder / "starts"
        if not path.exists():
            return []
        whole = path.read_text().rpartition("\n")[0]  # a line may be on its way
        return [_parsed(line) for line in whole.splitlines()]

    def close(self) -> None:
        os.close(self._acknowledged)


def _parsed(line: str) -> Start:
    job, token, kind, attempt, crashes, pid, at, suspect = line.split()
    return Start(job, int(token), kind, int(attempt), int(crashes), int(pid), float(at), suspect == "True")
