"""Decides whether a handler is async: by its outermost decorator, not by what that wraps.

A decorator may make a function async or sync: an async one around a sync function makes it async. Only a sync function around an
async one is ambiguous. Most return the coroutine, as decorators that measure or log do, so it is taken for
async; one that runs it to its end (``asyncio.run``) needs a thread without a loop, and is defined with ``executor="thread"``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_async(function: Callable[..., Any] | None) -> bool:
    """Whether a call of this function returns something to await."""
    if function is None or _is_async(function):
        return function is not None
    return _is_async(inspect.unwrap(function, stop=_is_async))


def marked_sync(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a sync function that wraps an async one appear sync to ``inspect``, too; any other function is returned unchanged."""
    if _is_async(function) or not is_async(function):
        return function

    @functools.wraps(function)
    def sync(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    sync.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    del sync.__wrapped__
    return sync


def _is_async(function: Callable[..., Any]) -> bool:
    """A coroutine function (also by ``inspect.markcoroutinefunction``), a bound method or a partial of one, an object whose
    ``__call__`` is one."""
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    if inspect.isroutine(function) or inspect.isclass(function):
        return False
    return inspect.iscoroutinefunction(type(function).__call__)


def is_on_a_loop() -> bool:
    """Whether an event loop runs in this thread, so that a blocking call here blocks the loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_generator(handler: Callable[..., Any]) -> bool:
    """Whether calling it only makes a generator: nothing of its body runs."""
    function = _innermost(handler)
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def place_of(handler: Callable[..., Any]) -> str:
    """Where a handler is written: its name, file and line."""
    function = _innermost(handler)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__name__)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def _innermost(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    handler = inspect.unwrap(handler)
    return handler if inspect.isroutine(handler) else type(handler).__call__
