"""Repeats one external call inside an attempt, by a retry policy, without giving up the claim of its job.

In a handler it belongs to the running job: it stops with the job, its waits are signs of life, its log lines have the job's fields.
Elsewhere it only repeats and sleeps.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any, Protocol, TypeVar, runtime_checkable

from windlass.arguments.asyncness import is_async, is_on_a_loop
from windlass.arguments.json_checks import explain
from windlass.errors import ConfigError, LeaseLost, NotAllowedError, StoreError, WindlassError
from windlass.handlers.attempt_context import AttemptContext
from windlass.handlers.context import Context
from windlass.model import as_duration
from windlass.model.retry import RetryPolicy, exponential, next_delay, why_stopped
from windlass.model.signals import Retry, Signal
from windlass.observe import events
from windlass.observe.current_job import current_job
from windlass.observe.emit import emit

T = TypeVar("T")
SIGNS_PER_LIMIT = 3
"""How often a wait shows a sign of life within the time limit of its job."""


@runtime_checkable
class RunningJob(Protocol):
    """A running job, as the engine has it."""

    def ensure_context(self) -> AttemptContext: ...


def run_with_backoff(
    call: Callable[[], T],
    *,
    policy: RetryPolicy | None = None,
    longest_wait: float | timedelta | None = None,
    ctx: Context | None = None,
) -> T:
    """Call ``call()`` until it returns, at most as often as ``policy`` (``exponential()``) allows; returns its result.

    In a handler a wait ends with ``Stopped`` when the job should stop. ``Retry(after=…)`` of the call sets the wait; the other signals
    pass through. The last exception is raised, with a note about the tries; so is an exception whose wait would exceed
    ``longest_wait`` seconds. ``ctx`` is found without being given, except in threads that the handler started itself.
    """
    if is_async(call):
        raise ConfigError(
            "call", call, "a plain function; for a coroutine function use run_with_backoff_async"
        )
    tries = _Tries(call, policy, longest_wait, ctx)
    tries.refuse_on_a_loop()
    while True:
        try:
            value = call()
        except Exception as error:
            if (delay := tries.delay_after(error)) is None:
                raise
            tries.sleep(delay)
        else:
            return _not_awaitable(call, value)


async def run_with_backoff_async(
    call: Callable[[], Awaitable[T]],
    *,
    policy: RetryPolicy | None = None,
    longest_wait: float | timedelta | None = None,
    ctx: Context | None = None,
) -> T:
    """``run_with_backoff`` of a coroutine function, without blocking the event loop."""
    tries = _Tries(call, policy, longest_wait, ctx)
    while True:
        try:
            begun: Any = call()
            if not inspect.isawaitable(begun):
                break
            value: T = await begun
        except Exception as error:
            if (delay := tries.delay_after(error)) is None:
                raise
            await tries.sleep_async(delay)
        else:
            return value
    raise ConfigError("call", call, "a coroutine function; for a plain function use run_with_backoff")


def _not_awaitable(call: Callable[[], T], value: T) -> T:
    """The value of a plain call; an awaitable would be a success that never happened."""
    if not inspect.isawaitable(value):
        return value
    if inspect.iscoroutine(value):
        value.close()
    raise ConfigError("call", call, "a plain function; it returned an awaitable: use run_with_backoff_async")


class _Tries:
    """The tries of one call."""

    def __init__(
        self,
        call: Callable[[], Any],
        policy: RetryPolicy | None,
        longest_wait: float | timedelta | None,
        ctx: Context | None,
    ) -> None:
        if not callable(call):
            raise ConfigError("call", call, "a function without parameters, such as lambda: fetch(url)")
        if policy is not None and not (hasattr(policy, "attempts") and hasattr(policy, "delay")):
            raise ConfigError(
                "policy", policy, "a policy, for example windlass.retry.fixed(attempts=3, wait=1)"
            )
        longest = as_duration(longest_wait)
        if longest is not None and not (isinstance(longest, timedelta) and longest >= timedelta(0)):
            raise ConfigError("longest_wait", longest_wait, "seconds as a number, or a timedelta, from zero")
        self._name = getattr(call, "__qualname__", type(call).__name__)
        self._policy = exponential() if policy is None else policy
        self._longest = longest
        self._ctx: AttemptContext | None = _running_context() if ctx is None else ctx._attempt
        self._made = 0
        self._spent = 0
        self._alive()

    def refuse_on_a_loop(self) -> None:
        """Refuse the sync form in a coroutine of a job: its waits would block the jobs beside it."""
        if self._ctx is not None and self._ctx.is_async and is_on_a_loop():
            raise WindlassError(
                f"job {self._ctx.job_id} has a coroutine as its handler, and run_with_backoff would block the event loop; "
                "write `await windlass.retry.run_with_backoff_async(…)`"
            )

    def delay_after(self, error: Exception) -> float | None:
        """Return the seconds to wait after a failed try; None to raise its exception."""
        if isinstance(error, Signal | LeaseLost | NotAllowedError | StoreError) and not isinstance(
            error, Retry
        ):
            return None
        self._made += 1
        self._spent += not (isinstance(error, Retry) and not error.counted)
        delay, why = self._decide(error)
        if delay is None:
            error.add_note(
                f"run_with_backoff gave up after {self._made} {'try' if self._made == 1 else 'tries'}: {why}"
            )
            return None
        emit(
            events.CALL_RETRIED,
            self._made,
            self._policy.attempts,
            lease=self._ctx.lease if self._ctx is not None else None,
            call=self._name,
            reason=explain(error),
            delay_seconds=delay.total_seconds(),
        )
        return delay.total_seconds()

    def _decide(self, error: Exception) -> tuple[timedelta | None, str]:
        """Return the delay; or None, and why there is no further try."""
        if self._spent >= self._policy.attempts:
            return None, f"its policy allows {self._policy.attempts}"
        asked = error.after if isinstance(error, Retry) else None
        delay = next_delay(self._policy, max(1, self._spent), error) if asked is None else asked
        if delay is None:
            return None, why_stopped(self._policy, error)
        if self._longest is not None and delay > self._longest:
            return (
                None,
                f"a wait of {delay.total_seconds():g} s exceeds longest_wait ({self._longest.total_seconds():g} s)",
            )
        return delay, ""

    def sleep(self, seconds: float) -> None:
        if self._ctx is None:
            time.sleep(seconds)
            return
        for pause in self._pauses(seconds):
            self._ctx.sleep(pause)
            self._alive()

    async def sleep_async(self, seconds: float) -> None:
        if self._ctx is None:
            await asyncio.sleep(seconds)
            return
        for pause in self._pauses(seconds):
            await self._ctx.sleep_async(pause)
            self._alive()

    def _pauses(self, seconds: float) -> Iterator[float]:
        """Divide a wait, so that signs of life keep the time limit of the job from ending it."""
        limit = self._ctx.time_limit if self._ctx is not None else None
        longest = seconds if limit is None else limit / SIGNS_PER_LIMIT
        yield min(seconds, longest)
        while (seconds := seconds - longest) > 0:
            yield min(seconds, longest)

    def _alive(self) -> None:
        if self._ctx is not None:
            self._ctx.alive()


def _running_context() -> AttemptContext | None:
    job: object = current_job.get()
    return job.ensure_context() if isinstance(job, RunningJob) else None
