"""One record of what happened: its name, its level, its fields.

Events (events.py) say what there is to tell; this writes it.
"""

from __future__ import annotations

import logging
from typing import Any

from windlass.observe.logger import get_logger

log = get_logger("windlass.engine")

LEVELS = {
    "job.promoted": logging.DEBUG,
    "job.claimed": logging.DEBUG,
    "job.started": logging.DEBUG,
    "job.completed": logging.DEBUG,
    "job.advanced": logging.DEBUG,
    "job.retried": logging.WARNING,
    "job.failed": logging.ERROR,
    "job.cancelled": logging.INFO,
    "job.released": logging.INFO,
    "job.recovered": logging.WARNING,
    "job.lost": logging.WARNING,
    "job.refused": logging.WARNING,
    "job.overdue": logging.WARNING,
    "job.raised_after_end": logging.WARNING,
    "job.result_dropped": logging.WARNING,
    "job.summary": logging.INFO,
    "chunk.retried": logging.WARNING,
    "duplicate.prevented": logging.INFO,
    "phase.held_back": logging.INFO,
    "phase.unserved": logging.WARNING,
    "drain.held_up": logging.WARNING,
    "request.unknown": logging.INFO,
    "lock.held": logging.INFO,
    "lock.lost": logging.WARNING,
    "lock.degraded": logging.WARNING,
    "lock.restored": logging.INFO,
    "schedule.defined": logging.INFO,
    "rule.defined": logging.INFO,
    "schedule.fired": logging.DEBUG,
    "schedule.missed": logging.WARNING,
    "schedule.refused": logging.ERROR,
    "schedule.left": logging.WARNING,
    "processor.replaced": logging.WARNING,
    "policy.broken": logging.WARNING,
    "executor.failed": logging.ERROR,
    "lease.lost": logging.ERROR,
    "instance.started": logging.INFO,
    "instance.stopping": logging.INFO,
    "instance.stopped": logging.INFO,
    "instance.left_behind": logging.WARNING,
    "instance.self_stopped": logging.ERROR,
    "instance.health": logging.INFO,
    "duty.failing": logging.WARNING,
    "duty.works": logging.INFO,
    "metrics.listening": logging.INFO,
    "process.ended": logging.WARNING,
    "loop.blocked": logging.WARNING,
    "store.unreachable": logging.WARNING,
    "store.back": logging.INFO,
    "store.awaited": logging.WARNING,
}
"""Every event and its level; ``instance.health`` is a WARNING where something is degraded or down."""


def enabled(level: int) -> bool:
    """Whether records of a level go anywhere, so that whole batches can be left out."""
    return log.isEnabledFor(level)


def emit(
    event: str,
    message: str,
    *,
    level: int | None = None,
    exc_info: BaseException | None = None,
    **fields: Any,
) -> None:
    """One record; fields that are None are left out."""
    level = LEVELS[event] if level is None else level
    if log.isEnabledFor(level):
        known = {name: value for name, value in fields.items() if value is not None}
        log.log(level, message, exc_info=exc_info, extra={"event": event, **known}, stacklevel=3)
