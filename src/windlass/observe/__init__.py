"""Log events, formats, redaction, metrics and health.

The names below are for applications; they are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.observe.metrics import Metrics as Metrics
    from windlass.observe.redaction import Secrets as Secrets
    from windlass.observe.report import EngineReport as EngineReport
    from windlass.observe.report import PhaseReport as PhaseReport
    from windlass.observe.report import StatsReport as StatsReport
    from windlass.observe.server import serve as serve
    from windlass.observe.structures import redact as redact

_HOMES = {
    "EngineReport": "windlass.observe.report",
    "Metrics": "windlass.observe.metrics",
    "PhaseReport": "windlass.observe.report",
    "Secrets": "windlass.observe.redaction",
    "StatsReport": "windlass.observe.report",
    "redact": "windlass.observe.structures",
    "serve": "windlass.observe.server",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'windlass.observe' has no attribute {name!r}")
    return getattr(import_module(home), name)
