"""Checks of numbers in calls and settings, with one error text for all. True and False are no numbers here."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import inf
from typing import Any, TypeGuard

from windlass.errors import ConfigError


def is_whole(value: object, least: int, most: int = sys.maxsize) -> TypeGuard[int]:
    """Whether a value is a whole number from ``least`` to ``most``."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_number(value: object, least: float = -inf, most: float = inf) -> TypeGuard[float]:
    """Whether a value is a number from ``least`` to ``most``; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


@dataclass(frozen=True, slots=True)
class Range:
    """The allowed values of a number."""

    least: float
    most: float
    unit: str = ""
    is_whole: bool = False
    or_none: str = ""  # what None means, if it is allowed

    @property
    def allowed(self) -> str:
        """Completes "it must be ..."."""
        kind = "a whole number" if self.is_whole else "a number"
        unit = f" of {self.unit}" if self.unit else ""
        least = f"{self.least:,}" if self.is_whole else f"{self.least:g}"
        text = f"{kind}{unit} from {least} to {self.most:,}"
        return f"{text}, or None for {self.or_none}" if self.or_none else text

    def check(self, name: str, value: object) -> None:
        """Raise ``ConfigError`` for a value outside the range; ``name`` is the key in the error."""
        is_known = isinstance(value, int) or not self.is_whole
        if not ((is_known and is_number(value, self.least, self.most)) or (value is None and self.or_none)):
            raise ConfigError(name, value, self.allowed)

    def read(self, value: Any) -> Any:
        """Convert a value of a file or the environment, where a number may be text; ValueError or TypeError for a wrong one."""
        if self.or_none and (value is None or str(value).lower() in ("none", "")):
            return None
        if isinstance(value, bool) or (self.is_whole and isinstance(value, float) and value % 1):
            raise ValueError
        number = int(value) if self.is_whole else float(value)
        if not self.least <= number <= self.most:
            raise ValueError
        return number
