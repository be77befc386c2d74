"""The memory limit of a child process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from windlass.observe.logger import get_logger

_M_ARENA_MAX = -8


def limit_memory(limit: int) -> None:
    """Let this process use ``limit`` bytes of address space beyond its current size; then Python raises ``MemoryError``.

    By default the C library reserves 64 MB for each thread, too much for a small limit; so it gets one arena.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        limit += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ValueError, OSError) as error:
        get_logger("windlass.engine").warning("this system does not limit the memory of a process: %s", error)
