"""How large and how deep one payload may be. Apart from ``encoding``, which loads pydantic: settings read these numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from windlass.errors import ConfigError

MAX_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 128


@dataclass(frozen=True, slots=True)
class Limits:
    """How large and how deep one payload may be; ``max_bytes`` counts UTF-8 JSON, ``max_depth`` nested brackets."""

    max_bytes: int = 256 * 1024
    max_depth: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.max_bytes <= MAX_BYTES:
            raise ConfigError(
                "max_bytes", self.max_bytes, "1 byte to 64 MiB; larger data belongs in a file or table"
            )
        if not 1 <= self.max_depth <= MAX_DEPTH:
            raise ConfigError(
                "max_depth", self.max_depth, f"1 to {MAX_DEPTH}; the JSON parser itself stops at 200"
            )


DEFAULT_LIMITS: Final = Limits()
RESULT_LIMITS: Final = Limits(max_bytes=1024 * 1024)
LARGEST: Final = Limits(max_bytes=MAX_BYTES, max_depth=MAX_DEPTH)


@dataclass(frozen=True, slots=True)
class PayloadLimits:
    """The limits of arguments, and those of results and outputs."""

    args: Limits = DEFAULT_LIMITS
    result: Limits = RESULT_LIMITS


PAYLOAD_LIMITS: Final = PayloadLimits()
