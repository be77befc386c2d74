"""The verbs of the client that send one request each, for threads and for coroutines alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar, overload

from windlass.client.asks import jobs, operations, plans, reports
from windlass.client.asks.ask import Ask
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

    get = Verb(jobs.get)
    list = Verb(jobs.list_jobs)
    count = Verb(jobs.count)
    why = Verb(jobs.why)
    timeline = Verb(jobs.timeline)
    logs = Verb(jobs.logs)
    progress = Verb(jobs.progress)
    outputs = Verb(jobs.outputs)
    cancel = Verb(jobs.cancel)
    retry = Verb(jobs.retry)
    run_now = Verb(jobs.run_now)
    delete = Verb(jobs.delete)
    edit = Verb(jobs.edit)
    related = Verb(jobs.related)
    batch = Verb(jobs.batch)
    present = Verb(jobs.present)
    stack = Verb(jobs.stack)
    _ended = Verb(jobs.get_ended)


class OperationVerbs:
    """Begins, shows and stops acts on many jobs: the verbs of ``app.operations``."""

    get = Verb(operations.get_operation)
    list = Verb(operations.list_operations)
    stop = Verb(operations.stop)
    _begin = Verb(operations.start)


class PhaseVerbs:
    """Counts, pauses and resumes phases: the verbs of ``app.phases``."""

    names = Verb(reports.names)
    counts = Verb(reports.counts)
    oldest = Verb(reports.oldest)
    paused = Verb(reports.paused)
    pause = Verb(reports.pause)
    resume = Verb(reports.resume)


class OverviewVerbs:
    """Reads the state of all phases and instances, and what is wrong: the verb of ``app.overview``."""

    read = Verb(reports.overview)


class FailureVerbs:
    """Groups failed jobs by their cause: the verb of ``app.failures``."""

    list = Verb(reports.list_failures)


class PipelineVerbs:
    """Lists the kinds and pipelines of the application: the verbs of ``Control.pipelines``."""

    list = Verb(reports.list_pipelines)
    get = Verb(reports.get_pipeline)


class ScheduleVerbs:
    """Lists, pauses, resumes, runs and removes schedules: the verbs of ``app.schedules``."""

    list = Verb(plans.list_schedules)
    get = Verb(plans.get_schedule)
    ticks = Verb(plans.ticks)
    next_times = Verb(plans.next_times)
    pause = Verb(plans.pause_schedule)
    resume = Verb(plans.resume_schedule)
    run_now = Verb(plans.run_schedule)
    remove = Verb(plans.remove_schedule)


class RuleVerbs:
    """Lists, explains and removes rules, and lists open fan-ins: the verbs of ``app.rules``."""

    list = Verb(plans.list_rules)
    get = Verb(plans.get_rule)
    open = Verb(plans.open_fan_ins)
    why = Verb(plans.explain_rule)
    remove = Verb(plans.remove_rule)


class InstanceVerbs:
    """Lists instances, drains them and changes their processors: the verbs of ``app.instances``."""

    list = Verb(operations.list_instances)
    drain = Verb(operations.drain)
    set_processors = Verb(operations.set_processors)
    request = Verb(operations.get_request)
    requests = Verb(operations.list_requests)
    pools = Verb(operations.list_pools)


class AuditVerbs:
    """Reads the audit trail: the verb of ``app.audit``."""

    list = Verb(reports.list_audit)


class HistoryVerbs:
    """Reads statistics over time: the verb of ``Control.history``."""

    read = Verb(reports.read_history)


class DeployVerbs:
    """Marks deploys on the charts, and lists the marks: the verbs of ``Control.deploys``."""

    mark = Verb(reports.mark_deploy)
    list = Verb(reports.list_deploys)
