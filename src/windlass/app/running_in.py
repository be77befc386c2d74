"""Which app the job of this thread or task belongs to, where the app is bound to another database than its kinds were defined for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from windlass.arguments.asyncness import is_async

if TYPE_CHECKING:
    from windlass.app.parts import AppParts

running_in: ContextVar[AppParts | None] = ContextVar("windlass_running_in", default=None)
"""The bound app whose job this thread or task runs."""


def in_app(app: AppParts, handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler for jobs of a bound app: jobs that it enqueues are jobs of that app, too."""
    if is_async(handler):

        @functools.wraps(handler)
        async def served_async(**arguments: Any) -> Any:
            was = running_in.set(app)
            try:
                return await handler(**arguments)
            finally:
                running_in.reset(was)

        return served_async

    @functools.wraps(handler)
    def served(**arguments: Any) -> Any:
        was = running_in.set(app)
        try:
            return handler(**arguments)
        finally:
            running_in.reset(was)

    return served
