"""The keys of filters: what each one means, which values it takes, and whether these can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from windlass.control.filters import values
from windlass.control.filters.terms import Value
from windlass.model import State

Read = Callable[[str, bool], Value]
"""Makes a value of a text and whether the text was in quotes; ``values.BadValue`` if it cannot be used."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key: the values it takes, and what it selects jobs by."""

    name: str
    about: str
    allowed: str
    example: str
    read: Read
    has_prefix: bool = False
    """Whether a value may end with ``*``."""
    comparable: bool = False
    """Whether a value may have ``<``, ``<=``, ``>`` or ``>=`` before it."""
    is_listed: bool = True
    """Whether the key takes values without a comparison."""


def _key(name: str, about: str, allowed: str, example: str, read: Read, **options: bool) -> tuple[str, Key]:
    return name, Key(name, about, allowed, example, read, **options)


KEYS: Mapping[str, Key] = dict(
    [
        _key("state", "the state", f"one of {', '.join(State)}", "state:failed,cancelled", values.state),
        _key(
            "kind", "the kind", "a kind, or its beginning and *", "kind:report*", values.word, has_prefix=True
        ),
        _key(
            "phase",
            "the phase",
            "a phase, or its beginning and *",
            "phase:render",
            values.word,
            has_prefix=True,
        ),
        _key("id", "the id", "the id of a job", "id:0190a1b2-0000-7000-8000-000000000000", values.identity),
        _key("correlation", "the correlation id", "a correlation id", "correlation:order-7", values.word),
        _key("key", "the unique key", "a unique key", "key:invoice-2026-01", values.word),
        _key("principal", "the subject who asked for it", "a subject", "principal:anna", values.word),
        _key("tenant", "the tenant of who asked for it", "a tenant", "tenant:acme", values.word),
        _key(
            "age",
            "the time since it was created",
            "< or > and a duration such as 90s, 15m, 12h, 7d or 2w",
            "age:>1h",
            values.duration,
            comparable=True,
            is_listed=False,
        ),
        _key(
            "created",
            "when it was created",
            "< or > and a time such as 2026-01-31 or 2026-01-31T12:00:00Z",
            "created:>=2026-01-31",
            values.moment,
            comparable=True,
            is_listed=False,
        ),
        _key(
            "finished",
            "when it ended",
            "< or > and a time such as 2026-01-31 or 2026-01-31T12:00:00Z",
            "finished:<2026-01-31T12:00:00Z",
            values.moment,
            comparable=True,
            is_listed=False,
        ),
        _key(
            "priority",
            "the priority",
            "a whole number from 0 to 9",
            "priority:>=5",
            values.priority,
            comparable=True,
        ),
        _key(
            "attempt",
            "how often its phase was begun",
            "a whole number from 0 to 32767",
            "attempt:>1",
            values.attempt,
            comparable=True,
        ),
        _key(
            "instance",
            "the instance that runs it or ended it",
            "the id of an instance",
            "instance:0190a1b2-0000-7000-8000-000000000000",
            values.identity,
        ),
        _key("error", "the code of its error", "the code of an error", "error:timeout", values.word),
        _key(
            "exception",
            "the type of its error",
            "the type of an exception",
            "exception:ValueError",
            values.word,
        ),
        _key(
            "batch",
            "the batch, by the id of its summary job",
            "the id of a batch's summary job",
            "batch:0190a1b2-0000-7000-8000-000000000000",
            values.identity,
        ),
        _key(
            "args",
            "a value in its arguments",
            "a text, a number, true, false or null",
            "args.county:Harju",
            values.scalar,
            comparable=True,
        ),
    ]
)
"""All keys by name."""

NAMES = tuple("args.PATH" if name == "args" else name for name in KEYS)
"""The keys as they are listed in errors."""
