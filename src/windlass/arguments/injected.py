"""Marks parameters of handlers that Windlass fills when the job runs."""

from __future__ import annotations

from typing import Any


class Injected:
    """The default of a parameter that Windlass fills when the job runs. A plain call has to give a value."""

    def __repr__(self) -> str:
        return "injected()"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{name!r} was asked of a parameter with the default injected(): it is filled when the job runs; "
            "give a value in a plain call of the handler"
        )


INJECTED = Injected()


def injected() -> Any:
    """The default of a handler's parameter that is filled by its type when the job runs: ``mailer: Mailer = injected()``.

    With it, type checkers accept ``enqueue`` without the parameter. Parameters without it are filled all the same.
    """
    return INJECTED
