"""Starting ``windlass worker`` from a framework's own command: this process becomes the worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def become_worker(target: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by a worker for the app that ``target`` names; it finds modules where this one does."""
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "windlass", "worker", target, *arguments])  # noqa: S606
