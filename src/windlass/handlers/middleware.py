"""Middleware: context managers of the application around every attempt.

    @app.middleware
    @contextmanager
    def timed(attempt: CurrentAttempt) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            print(attempt.kind, attempt.outcome, time.perf_counter() - began)

The outcome of an attempt is decided when its handler ends, and again if a middleware makes a success of it fail. A middleware cannot hide
an error: what the handler raised is raised into the middleware, and counts whether or not the middleware lets it pass.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from windlass.arguments.asyncness import is_async, place_of
from windlass.arguments.json_checks import explain
from windlass.errors import ConfigError
from windlass.model import Flag, JobError, Lease, has_flag
from windlass.observe import events
from windlass.observe.emit import emit

if TYPE_CHECKING:
    from windlass.handlers.attempt_context import AttemptContext
    from windlass.model.principal import Principal

PACKAGE = __name__.partition(".")[0]


class CurrentAttempt:
    """An attempt as a middleware sees it. ``outcome``, ``error`` and ``exception`` are None until the handler has ended."""

    __slots__ = ("_context", "_lease", "error", "exception", "outcome")

    def __init__(self, lease: Lease, context: Callable[[], AttemptContext]) -> None:
        self._lease = lease
        self._context = context
        self.outcome: str | None = None
        """completed, advanced, failed, retried, cancelled, released (given back) or lost (given up before its handler ended)."""
        self.error: JobError | None = None
        """The structured error of an attempt that failed, as it is stored with the job."""
        self.exception: BaseException | None = None
        """What the handler raised. An attempt that was given a kept token has a copy without the token."""

    @property
    def job_id(self) -> str:
        return self._lease.id

    @property
    def kind(self) -> str:
        return self._lease.kind

    @property
    def phase(self) -> str:
        """The full name of the phase, as in log lines: ``kind:label`` in a pipeline."""
        return self._lease.phase

    @property
    def attempt(self) -> int:
        """Which execution of this phase this is: 1, 2, …"""
        return self._lease.attempt

    @property
    def max_attempts(self) -> int:
        return self._lease.max_attempts

    @property
    def generation(self) -> int:
        """How many times the job was brought back by hand, plus one."""
        return self._lease.generation

    @property
    def correlation_id(self) -> str:
        return self._lease.correlation_id

    @property
    def created_at(self) -> datetime:
        return self._lease.created_at

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that were submitted with the job. They were read before the first middleware was entered."""
        return self._context().headers if has_flag(self._lease.flags, Flag.HEADERS) else {}

    @property
    def principal(self) -> Principal | None:
        """The principal of the job. The first access is a read of the database; around async handlers use ``principal_async``."""
        return self._context().principal if has_flag(self._lease.flags, Flag.PRINCIPAL) else None

    async def principal_async(self) -> Principal | None:
        """``principal`` without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.principal)

    def read_args(self) -> Any:
        """The job's arguments as they are stored. They may be confidential: nothing else here shows them."""
        return self._lease.args

    @property
    def is_final(self) -> bool:
        """Whether this attempt ended the job."""
        return self.outcome in ("completed", "failed", "cancelled")

    @property
    def has_headers(self) -> bool:
        return has_flag(self._lease.flags, Flag.HEADERS)

    def end(self, ending: Ending) -> None:
        """Called by the engine."""
        self.outcome, self.error, self.exception = ending.outcome, ending.error, ending.exception

    def __repr__(self) -> str:
        return f"<attempt {self.attempt} of {self.phase} job {self.job_id}: {self.outcome or 'running'}>"


class Ending(NamedTuple):
    """How an attempt ended. ``record`` is for the executor. ``is_committed``: a transaction of the handler has ended the job. ``is_open``:
    only the database knows whether such a transaction was committed."""

    outcome: str
    record: Any
    error: JobError | None = None
    exception: BaseException | None = None
    is_committed: bool = False
    is_open: bool = False


class Judge(Protocol):
    """Decides how an attempt ended."""

    def returned(self, value: Any) -> Ending: ...

    def raised(self, error: BaseException) -> Ending: ...

    def settled(self, ending: Ending) -> Ending:
        """The ending as the database has it, for one that is open."""
        ...


class HandlerError(Exception):
    """Stands for an error that has no exception, or none that may be shown; only middleware sees it."""

    def __init__(self, error: JobError) -> None:
        super().__init__(error.message)
        self.code = error.code


@dataclass(frozen=True, slots=True)
class Middleware:
    """A checked middleware; ``module`` is where it was registered."""

    function: Callable[[CurrentAttempt], Any]
    name: str
    is_async: bool
    module: str

    def manager(self, attempt: CurrentAttempt) -> Any:
        """The context manager around one attempt."""
        made = self.function(attempt)
        if not hasattr(made, "__aexit__" if self.is_async else "__exit__"):
            raise ConfigError(
                "middleware",
                self.name,
                because=f"it returned {type(made).__name__} and no context manager; decorate it with @contextmanager and yield once",
            )
        return made


def checked(function: Callable[..., Any]) -> Middleware:
    """Check a middleware: a function that takes a ``CurrentAttempt`` and returns a context manager, or a generator that yields once."""
    given: object = function
    if not callable(given):
        raise ConfigError(
            "middleware", given, "a function that takes the attempt and returns a context manager"
        )
    if is_async(function):
        raise ConfigError(
            "middleware", place_of(function), "an async generator that yields once, with @asynccontextmanager"
        )
    name = getattr(function, "__qualname__", type(function).__qualname__)
    innermost = inspect.unwrap(function)
    is_asynchronous = inspect.isasyncgenfunction(innermost) or (
        inspect.isclass(function) and hasattr(function, "__aenter__") and not hasattr(function, "__enter__")
    )
    if inspect.isasyncgenfunction(function):
        function = asynccontextmanager(function)
    elif inspect.isgeneratorfunction(function):
        function = contextmanager(function)
    return Middleware(function, name, is_asynchronous, _caller())


def refuse_async(middleware: Sequence[Middleware], phase: str) -> list[str]:
    """Why these cannot surround a plain handler; empty if they can."""
    return [
        f"{phase}, middleware {item.name}: it is async, and the handler is a plain function; write it with @contextmanager, which works "
        "around async handlers, too"
        for item in middleware
        if item.is_async
    ]


def around(
    middleware: Sequence[Middleware], attempt: CurrentAttempt, judge: Judge, call: Callable[[], Any]
) -> Any:
    """Call a plain handler inside the middleware, the first outermost; returns what the executor records."""
    entered: list[tuple[Middleware, Any]] = []
    try:
        if attempt.has_headers:
            _ = attempt.headers
        for item in middleware:
            manager = item.manager(attempt)
            manager.__enter__()
            entered.append((item, manager))
        value = call()
    except BaseException as error:  # noqa: BLE001  every exception of a handler is an outcome
        ending = judge.raised(error)
    else:
        ending = judge.returned(value)
    if ending.is_open:
        ending = judge.settled(ending)
    while entered:
        item, manager = entered.pop()
        attempt.end(ending)
        try:
            manager.__exit__(*_thrown(ending.exception))
        except BaseException as error:  # noqa: BLE001  as above
            ending = _raised_after(item, attempt, judge, ending, error)
    return ending.record


async def around_async(
    middleware: Sequence[Middleware],
    attempt: CurrentAttempt,
    judge: Judge,
    call: Callable[[], Awaitable[Any]],
) -> Any:
    """``around`` for an async handler; plain and async middleware."""
    entered: list[tuple[Middleware, Any]] = []
    try:
        if attempt.has_headers:
            await asyncio.to_thread(lambda: attempt.headers)
        for item in middleware:
            manager = item.manager(attempt)
            if item.is_async:
                await manager.__aenter__()
            else:
                manager.__enter__()
            entered.append((item, manager))
        value = await call()
    except GeneratorExit:  # the loop is closed
        raise
    except BaseException as error:  # noqa: BLE001  as above
        ending = judge.raised(error)
    else:
        ending = judge.returned(value)
    if ending.is_open:
        ending = await asyncio.to_thread(judge.settled, ending)
    while entered:
        item, manager = entered.pop()
        attempt.end(ending)
        try:
            if item.is_async:
                await manager.__aexit__(*_thrown(ending.exception))
            else:
                manager.__exit__(*_thrown(ending.exception))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  as above
            ending = _raised_after(item, attempt, judge, ending, error)
    return ending.record


def _raised_after(
    item: Middleware, attempt: CurrentAttempt, judge: Judge, ending: Ending, error: BaseException
) -> Ending:
    """The ending after a middleware raised behind the handler: a success that is not committed fails; anything else stays what it is."""
    if error is ending.exception:
        return ending
    if ending.exception is None and not ending.is_committed and ending.outcome in ("completed", "advanced"):
        return judge.raised(error)
    emit(
        events.MIDDLEWARE_FAILED,
        ending.outcome,
        lease=attempt._lease,
        exc_info=error,
        middleware=item.name,
        reason=explain(error),
    )
    return ending


def _thrown(error: BaseException | None) -> tuple[Any, ...]:
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)


def _caller() -> str:
    """The module that registers a middleware: the first one outside of Windlass."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] != PACKAGE:
            return module
        frame = frame.f_back
    return ""
