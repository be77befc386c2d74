"""A worker process that ends with the process that started it: ``python -m windlass_examples.running.worker MODULE:APP …``."""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run ``windlass worker`` with the arguments of this process."""
    end_with_parent()
    sys.argv.insert(1, "worker")
    runpy.run_module("windlass", run_name="__main__", alter_sys=True)


def end_with_parent() -> None:
    """Have the kernel stop this process when its parent dies (Linux only)."""
    parent = os.getppid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent == 1 or os.getppid() != parent:
        sys.exit("the process that started this worker has ended")


if __name__ == "__main__":
    main()
