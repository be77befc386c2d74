"""The verbs of the client that send one request each, for threads and for coroutines alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar, overload

from windlass.client import asks
from windlass.client.asks import Ask
from windlass.client.sending import AsyncSender, Sender

P = ParamSpec("P")
T = TypeVar("T")


class Noun:
    """One part of the API, for threads."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender


class AsyncNoun:
    """One part of the API, for coroutines."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender


class Verb(Generic[P, T]):
    """The method that sends a request and returns what its response says; of a noun for coroutines it is async."""

    def __init__(self, ask: Callable[P, Ask[T]]) -> None:
        self._ask = ask

    @overload
    def __get__(self, noun: None, owner: type[Any]) -> Callable[P, Ask[T]]: ...
    @overload
    def __get__(self, noun: Noun, owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(self, noun: AsyncNoun, owner: type[Any]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, noun: Noun | AsyncNoun | None, owner: type[Any]) -> Any:
        if noun is None:
            return self._ask
        send: Callable[[Ask[T]], Any] = noun._sender.send

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return send(self._ask(*args, **kwargs))

        return functools.update_wrapper(call, self._ask)


class JobVerbs:
    """Shows, searches, cancels, retries and changes jobs: the verbs of ``app.jobs``."""

    get = Verb(asks.get)
    list = Verb(asks.list_jobs)
    count = Verb(asks.count)
    why = Verb(asks.why)
    timeline = Verb(asks.timeline)
    logs = Verb(asks.logs)
    progress = Verb(asks.progress)
    outputs = Verb(asks.outputs)
    cancel = Verb(asks.cancel)
    retry = Verb(asks.retry)
    run_now = Verb(asks.run_now)
    delete = Verb(asks.delete)
    edit = Verb(asks.edit)
    _ended = Verb(asks.get_ended)


class OperationVerbs:
    """Begins, shows and stops acts on many jobs: the verbs of ``app.operations``."""

    get = Verb(asks.get_operation)
    list = Verb(asks.list_operations)
    stop = Verb(asks.stop)
    _begin = Verb(asks.start)


class PhaseVerbs:
    """Counts, pauses and resumes phases: the verbs of ``app.phases``."""

    names = Verb(asks.names)
    counts = Verb(asks.counts)
    oldest = Verb(asks.oldest)
    paused = Verb(asks.paused)
    pause = Verb(asks.pause)
    resume = Verb(asks.resume)


class OverviewVerbs:
    """Reads the state of all phases and instances, and what is wrong: the verb of ``app.overview``."""

    read = Verb(asks.overview)


class FailureVerbs:
    """Groups failed jobs by their cause: the verb of ``app.failures``."""

    list = Verb(asks.list_failures)


class PipelineVerbs:
    """Lists the kinds and pipelines of the application: the verbs of ``Control.pipelines``."""

    list = Verb(asks.list_pipelines)
    get = Verb(asks.get_pipeline)


class ScheduleVerbs:
    """Lists, pauses, resumes, runs and removes schedules: the verbs of ``app.schedules``."""

    list = Verb(asks.list_schedules)
    get = Verb(asks.get_schedule)
    ticks = Verb(asks.ticks)
    next_times = Verb(asks.next_times)
    pause = Verb(asks.pause_schedule)
    resume = Verb(asks.resume_schedule)
    run_now = Verb(asks.run_schedule)
    remove = Verb(asks.remove_schedule)


class RuleVerbs:
    """Lists rules and open fan-ins: the verbs of ``app.rules`` that read."""

    list = Verb(asks.list_rules)
    get = Verb(asks.get_rule)
    open = Verb(asks.open_fan_ins)


class InstanceVerbs:
    """Lists instances, drains them and changes their processors: the verbs of ``app.instances``."""

    list = Verb(asks.list_instances)
    drain = Verb(asks.drain)
    set_processors = Verb(asks.set_processors)
    request = Verb(asks.get_request)


class AuditVerbs:
    """Reads the audit trail: the verb of ``app.audit``."""

    list = Verb(asks.list_audit)
