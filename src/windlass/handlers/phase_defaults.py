"""Defaults of phases that leave options out."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from windlass.arguments.limits import PAYLOAD_LIMITS, PayloadLimits
from windlass.model.retry import RetryPolicy, exponential
from windlass.settings import PROCESSORS, TIME_LIMIT


class Unsaid(Enum):
    """The value of an option that a phase leaves to the configuration; ``None`` is a value of its own."""

    UNSAID = "as configured"


UNSAID: Final = Unsaid.UNSAID


class Defaults(Protocol):
    """Defaults of phases that leave options out; read when they are needed, so that they may come from a configuration."""

    @property
    def retry(self) -> RetryPolicy: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def total_timeout(self) -> float | None: ...

    @property
    def processors(self) -> int: ...

    def payload(self) -> PayloadLimits:
        """How large arguments, results and outputs may be."""
        ...


@dataclass(frozen=True, slots=True)
class FixedDefaults:
    """The defaults where there is no configuration."""

    retry: RetryPolicy = field(default_factory=exponential)
    timeout: float | None = TIME_LIMIT
    total_timeout: float | None = None
    processors: int = PROCESSORS

    def payload(self) -> PayloadLimits:
        return PAYLOAD_LIMITS
