"""Log lines of one attempt, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

MAX_BYTES = 64 * 1024
"""How much is kept of the lines of one attempt."""
MAX_LINE = 4000
LEFT_OUT = "further lines of this attempt are left out: its log has 64 kB"


class LogLine(NamedTuple):
    """One line: when, how urgent, by which logger, and the message."""

    at: datetime
    level: str
    logger: str
    message: str

    def to_json(self) -> list[Any]:
        return [self.at.timestamp(), self.level, self.logger, self.message]

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> LogLine:
        at, level, logger, message = row
        return cls(datetime.fromtimestamp(at, UTC), level, logger, message)


@dataclass(frozen=True, slots=True)
class AttemptLog:
    """The lines of one attempt of one phase."""

    phase: str
    attempt: int
    lines: Sequence[LogLine]


@dataclass(slots=True)
class Pending:
    """Lines of an attempt that are not stored yet, and how much the attempt has logged."""

    attempt: int
    phase: str
    size: int = 0
    part: int = 0
    lines: list[LogLine] = field(default_factory=list)

    def add(self, line: LogLine) -> bool:
        """Add a line; False if the attempt's log is full."""
        if self.size > MAX_BYTES:
            return False
        message = line.message if len(line.message) <= MAX_LINE else line.message[: MAX_LINE - 1] + "…"
        self.size += len(message.encode("utf-8", "replace")) + 40
        self.lines.append(
            line._replace(message=message) if self.size <= MAX_BYTES else line._replace(message=LEFT_OUT)
        )
        return True
