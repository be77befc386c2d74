"""The claimed jobs of an instance: those that wait in memory, those that run, and their processors.

``Workload`` is the only door: queue, pools and coordinator have no lock of their own and are used under its lock.
"""

from __future__ import annotations

from windlass.engine.workload.queue import Refusal
from windlass.engine.workload.workload import MOST_ALONE, MOST_APART, Room, Workload, needs_start

__all__ = ["MOST_ALONE", "MOST_APART", "Refusal", "Room", "Workload", "needs_start"]
