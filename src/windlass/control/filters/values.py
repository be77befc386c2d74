"""Reads the values of filters. Each function takes the text and whether it was in quotes, and raises ``BadValue`` for one that cannot be used."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from windlass.control.filters.terms import NUMBER, Scalar, Word
from windlass.errors import did_you_mean
from windlass.model import HIGHEST_PRIORITY, State
from windlass.store.ids import is_id

MOST_ATTEMPTS = 32_767
_OTHER_STATES = {
    "running": "processing",
    "active": "processing",
    "done": "completed",
    "success": "completed",
    "succeeded": "completed",
    "error": "failed",
    "dead": "failed",
    "pending": "queued",
    "ready": "queued",
    "delayed": "scheduled",
    "retry": "scheduled",
    "blocked": "waiting",
}
LONGEST = timedelta(days=36_500)
MAX_DIGITS = 40
_DURATION = re.compile(
    r"(?:([0-9]{1,12})w)?(?:([0-9]{1,12})d)?(?:([0-9]{1,12})h)?(?:([0-9]{1,12})m)?(?:([0-9]{1,12})s)?"
)
_SECONDS = (604_800, 86_400, 3600, 60, 1)
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)


class BadValue(ValueError):  # noqa: N818  a signal between these functions and the parser
    """A value that cannot be used: what is wrong with it, and what to write instead."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(problem)
        self.problem, self.cure = problem, cure


def word(text: str, _: bool) -> Word:
    """Any text."""
    if not text:
        raise BadValue("the value is empty", "Write a text, or remove the term.")
    return Word(text)


def state(text: str, _: bool) -> State:
    """The name of a state."""
    if text not in tuple(State):
        meant = _OTHER_STATES.get(text.lower(), text.lower())
        near = did_you_mean(meant, list(State), 0.5).removeprefix("; ").capitalize()
        raise BadValue(f"{text!r} is no state", near or "Write a state, such as failed.")
    return State(text)


def identity(text: str, _: bool) -> Word:
    """The id of a job or an instance."""
    if is_id(text):
        return Word(text)
    cure = (
        "Write the id in lower case, with its dashes."
        if is_id(text.lower())
        else "Copy the whole id, with its dashes."
    )
    raise BadValue(f"{text!r} is no id", cure)


def priority(text: str, _: bool) -> int:
    """A priority."""
    return _whole(text, HIGHEST_PRIORITY, "priority")


def attempt(text: str, _: bool) -> int:
    """A number of attempts."""
    return _whole(text, MOST_ATTEMPTS, "attempt")


def _whole(text: str, most: int, name: str) -> int:
    low, dots, high = text.partition("..")
    if dots:
        raise BadValue(
            f"{text!r} is no whole number",
            f"Write a range as two terms: {name}:>={low or 0} {name}:<={high or most}.",
        )
    if not re.fullmatch(r"[0-9]+", text):
        raise BadValue(f"{text!r} is no whole number", f"Write digits only, such as {name}:5.")
    if len(text) > MAX_DIGITS or int(text) > most:
        raise BadValue(f"{text[:MAX_DIGITS]} is too large", f"The largest {name} is {most}.")
    return int(text)


def duration(text: str, _: bool) -> timedelta:
    """A duration: whole numbers with units, the largest unit first."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        if re.fullmatch(r"[0-9]+", text):
            raise BadValue(
                f"{text!r} has no unit",
                f"Write {text}s for seconds, {text}m for minutes or {text}h for hours.",
            )
        if _MOMENT.fullmatch(text):
            raise BadValue(f"{text!r} is a time", f"For a time write created, such as created:<{text}.")
        raise BadValue(f"{text!r} is no duration", "Write whole numbers with w, d, h, m or s, such as 1h30m.")
    seconds = sum(int(number) * size for number, size in zip(found.groups("0"), _SECONDS, strict=True))
    if seconds > LONGEST.total_seconds():
        raise BadValue(f"{text!r} is over a hundred years", "Write a shorter duration, or remove the term.")
    return timedelta(seconds=seconds)


def moment(text: str, _: bool) -> datetime:
    """A time in ISO format; without a zone it is UTC, without a time of day midnight."""
    if not _MOMENT.fullmatch(text):
        if _DURATION.fullmatch(text) and text:
            raise BadValue(
                f"{text!r} is a duration", f"For a time before now write age, such as age:<{text}."
            )
        raise BadValue(
            f"{text!r} is no time",
            "Write year, month and day, and a time of day behind a T: 2026-01-31T12:00:00Z.",
        )
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadValue(f"{text!r} is no time that exists", "Check month, day, hour and zone.") from error


def scalar(text: str, is_quoted: bool) -> Scalar:
    """A value in the arguments of a job."""
    found = Scalar.of(text, is_quoted=is_quoted)
    if not found.is_text and NUMBER.fullmatch(text):
        _check_number(text)
    return found


def number(text: str) -> Scalar:
    """A number to compare a value in the arguments with."""
    if not NUMBER.fullmatch(text):
        raise BadValue(
            f"{text!r} is no number", "A comparison of arguments takes a number, such as args.count:>5."
        )
    _check_number(text)
    return Scalar(text, is_text=False)


def _check_number(text: str) -> None:
    if len(text) > MAX_DIGITS or not math.isfinite(float(text)):
        raise BadValue(
            f"{text[:MAX_DIGITS]} is a number of too many digits",
            "Write fewer digits, or quote the value to find a text.",
        )
