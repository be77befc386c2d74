"""The base of all errors, and errors of settings and payloads."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class WindlassError(Exception):
    """Base of every error that Windlass raises on purpose; ``code`` is stable and meant for programs."""

    code = "windlass"
    number: int | None = None
    """The place of the job that it is about, in a call with many jobs."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it again from its message and its facts, as pickle and copy do: what a constructor was called with is not kept."""
        return _made_again, (type(self), self.args, self.__dict__)

    def add_to_message(self, *, before: str = "", after: str = "") -> None:
        """Put a text before or after the message, such as the number of the call that the error was found in."""
        self.message = f"{before}{self.message}{after}"
        self.args = (self.message,)


def _made_again(kind: type[WindlassError], args: tuple[Any, ...], facts: dict[str, Any]) -> WindlassError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class ConfigError(WindlassError):
    """A setting, URL or option that cannot work; names the key, the value and the allowed values.

    ``allowed`` completes "it must be ..."; ``because`` replaces the whole ``reason``.
    """

    code = "config"

    def __init__(self, key: str, value: object, allowed: str = "", *, because: str = "") -> None:
        self.reason = because or f"it must be {allowed}"
        super().__init__(f"{key} = {value!r} cannot be used: {self.reason}")
        self.key, self.value, self.allowed = key, value, allowed


class SandboxError(WindlassError):
    """Code under test did what its sandbox does not allow: it opened another database, or waited for a job that does not run."""

    code = "sandbox"


class PayloadError(WindlassError):
    """Data that JSON or the database cannot hold, or stored data that cannot be used; ``field`` is the path to the wrong value."""

    code = "payload"

    def __init__(
        self, what: str, field: str, problem: str, cure: str, *, verdict: str = "cannot be stored"
    ) -> None:
        super().__init__(f"{what} {verdict}: {field} {problem}; {cure}")
        self.what, self.field, self.problem, self.cure = what, field, problem, cure


class PayloadTooLargeError(PayloadError):
    """Data over the size or depth limit."""

    code = "payload_too_large"


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ``ConfigError`` for a name that is not known; it lists the known names, and suggests one."""
    names = sorted(known)
    for name in given:
        if name not in names:
            raise ConfigError(what, name, f"one of {', '.join(names)}{did_you_mean(name, names)}")


def did_you_mean(name: object, known: Iterable[str], alike: float = 0.6) -> str:
    """A suggestion, such as ``; did you mean lease?``; empty if no known name is ``alike`` (from 0 to 1, the same)."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=alike)
    return f"; did you mean {near[0]}?" if near else ""
