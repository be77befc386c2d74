"""The claimed jobs of an instance, waiting in memory or running, and their processors.

``Workload`` is the only entry: queue, pools and coordinator have no lock of their own and are used under its lock.
"""

from __future__ import annotations

from windlass.engine.workload.queue import Refusal
from windlass.engine.workload.workload import (
    MAX_ISOLATED,
    MAX_WAITING_SUSPECTS,
    Room,
    Workload,
    WorkloadFacts,
    needs_start,
)

__all__ = [
    "MAX_ISOLATED",
    "MAX_WAITING_SUSPECTS",
    "Refusal",
    "Room",
    "Workload",
    "WorkloadFacts",
    "needs_start",
]
