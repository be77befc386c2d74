"""Times, spans, counts and texts of users, as sentences show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from windlass.observe.redaction import Secrets
from windlass.observe.safe_text import escaped, shown

CAP = 10_000
"""Counts end here, so that none takes long."""
_SECRETS = Secrets()
_SHORT = 300


def said(value: object, limit: int = _SHORT) -> str:
    """A text of a user, an exception or an operator: on one line, not long, without control characters and secrets."""
    return escaped(shown(value, _SECRETS, limit))


def clock(moment: datetime, now: datetime) -> str:
    """A time, with its date unless that is today's."""
    moment = moment.astimezone(UTC)
    is_today = moment.date() == now.astimezone(UTC).date()
    return moment.strftime("%H:%M:%S UTC" if is_today else "%Y-%m-%d %H:%M:%S UTC")


def span(seconds: float) -> str:
    """A duration for people: two digits or so."""
    if seconds < 1:
        return "less than 1 s"
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:,.0f} days"


def until(moment: datetime, now: datetime) -> str:
    """A time to come, and how far away it is."""
    return f"{clock(moment, now)} (in {span((moment - now).total_seconds())})"


def since(moment: datetime, now: datetime) -> str:
    """A time that has passed, and for how long."""
    return f"{clock(moment, now)} (for {span((now - moment).total_seconds())})"


def many(count: int, noun: str = "job") -> str:
    """A count with its noun; one that was not counted to its end has a plus."""
    if count >= CAP:
        return f"{CAP:,}+ {noun}s"
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def are(count: int) -> str:
    return "is" if count == 1 else "are"


def named(names: Sequence[str], total: int) -> str:
    """Names that may be shown, and how many there are beside them: "a, b and 3 other jobs"."""
    others = total - len(names)
    if not names:
        return many(total, "other job")
    if others <= 0:
        return ", ".join(names)
    return f"{', '.join(names)} and {many(others, 'other job')}"
