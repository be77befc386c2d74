"""The source files of a project, and which of them changed since the last scan. They are polled: no further program is needed, and file
systems of containers report no events."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
SETTINGS = "windlass.toml"

Stamp = tuple[int, int]


class WatchedFiles:
    """The Python files below some folders, and their ``windlass.toml``; without hidden folders and virtual environments."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._known: Mapping[str, Stamp] = self._read()

    def changed(self) -> list[str]:
        """The files that were written, added or removed since the last call."""
        before, now = self._known, self._read()
        self._known = now
        return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))

    def _read(self) -> dict[str, Stamp]:
        return {entry.path: stamp for folder in self._folders for entry, stamp in _files(os.fspath(folder))}


def _files(folder: str) -> Iterator[tuple[os.DirEntry[str], Stamp]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # removed in this moment, or not readable
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith(".") and entry.name not in SKIPPED:
                    yield from _files(entry.path)
            elif entry.name.endswith(".py") or entry.name == SETTINGS:
                found = entry.stat()
                yield entry, (found.st_mtime_ns, found.st_size)
        except OSError:
            continue
