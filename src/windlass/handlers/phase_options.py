"""Checks of the options of a phase when it is defined, and the choice of where its handler runs."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from windlass.arguments.asyncness import is_async
from windlass.errors import ConfigError
from windlass.handlers.phase_defaults import UNSAID, Unsaid
from windlass.model.principal import Expiry
from windlass.ranges import is_number, is_whole
from windlass.settings import LONGEST, PROCESSOR_RANGE

if TYPE_CHECKING:
    from windlass.arguments.signature import Signature
    from windlass.model.retry import RetryPolicy


class Where(StrEnum):
    """Where a handler runs: on the event loop, on a thread, or in a process of its own that can be killed."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


def check_phase(
    label: str | None,
    *,
    timeout: float | Unsaid | None,
    total_timeout: float | Unsaid | None,
    max_waiting: int | None,
    processors: int | Unsaid,
    retry: RetryPolicy | None,
    chunk_retry: RetryPolicy | None,
    principal_expiry: str,
) -> None:
    """Refuse options that cannot work, with the allowed values; ``label`` is that of a phase of a pipeline."""
    for option, seconds in (("timeout", timeout), ("total_timeout", total_timeout)):
        if seconds is None or seconds is UNSAID or (is_number(seconds, 0, LONGEST) and seconds):
            continue
        raise ConfigError(
            option, seconds, f"a number of seconds above 0, up to {LONGEST:,}, or None for no limit"
        )
    if max_waiting is not None and not (is_whole(max_waiting, 1) and label):
        raise ConfigError(
            "max_waiting", max_waiting, "a whole number of 1 or more, for a phase of a pipeline"
        )
    if processors is not UNSAID:
        PROCESSOR_RANGE.check("processors", processors)
    for option, policy in (("retry", retry), ("chunk_retry", chunk_retry)):
        if policy is not None and not (hasattr(policy, "attempts") and hasattr(policy, "delay")):
            raise ConfigError(
                option, policy, "a policy, for example windlass.retry.fixed(attempts=3, wait=1)"
            )
    if principal_expiry not in tuple(Expiry):
        raise ConfigError("principal_expiry", principal_expiry, "run, fail or recheck")


def check_arguments(phase: str, signature: Signature, first: str, of_first: Signature) -> None:
    """Refuse a phase of a pipeline that could not be called with the arguments of the first phase, which are those of the job."""
    lacks = [name for name in of_first.parameters if name not in signature.parameters]
    needs = [name for name in signature.required if name not in of_first.parameters]
    problem = (
        f"it does not take {', '.join(lacks)}, and {first} does"
        if lacks
        else f"it needs {', '.join(needs)}, which {first} does not take"
    )
    if lacks or needs:
        raise ConfigError(
            "phase",
            phase,
            because=f"{problem}: each phase gets all arguments of the job; give both the same parameters",
        )


def where_to_run(handler: Callable[..., Any], executor: str | None) -> Where:
    """The executor of a handler: the one that its definition names, else by the form of the handler."""
    if executor is None:
        return Where.LOOP if is_async(handler) else Where.THREAD
    if executor not in (Where.THREAD, Where.PROCESS):
        raise ConfigError(
            "executor", executor, "thread or process; async handlers run on the event loop by themselves"
        )
    if is_async(handler) and executor == Where.THREAD:
        raise ConfigError("executor", executor, "None or process for an async handler")
    return Where(executor)
