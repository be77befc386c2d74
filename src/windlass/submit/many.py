"""From a call of ``enqueue_many`` to requests: one for each job, or one for all where they differ only in their arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from windlass.arguments.json_checks import a_type
from windlass.errors import PayloadError, WindlassError
from windlass.handlers.registry import Phase
from windlass.handlers.taken_over import NOTHING, taken_over
from windlass.model import NewJob
from windlass.observe.current_job import current_job
from windlass.principals.authority import Authority
from windlass.store.jobs.copy import SameKindJobs
from windlass.submit.call import hooked_headers, name_option, new_job
from windlass.submit.request import Request

Calls = Iterable[Mapping[str, Any]] | Iterable[Request[Any, Any]]
"""The jobs of a call: a mapping of arguments each, or a request each."""


def new_jobs(
    first: Phase, calls: Calls, options: Mapping[str, Any], authority: Authority
) -> list[NewJob] | SameKindJobs:
    """Make the requests of a call of ``enqueue_many``; as one, if they differ only in their arguments.

    A generator may set the principal by a block around its ``yield``, and may use its objects again: what it gives is captured and encoded
    before it goes on.
    """
    encode = first.signature.encode_args
    running = current_job.get()
    taken = NOTHING if running is None else taken_over(running.lease)
    like = NewJob(
        kind=first.kind,
        phase=first.name,
        max_attempts=first.retry.attempts,
        correlation_id=taken.correlation_id,
        headers_of=taken.headers_of,
    )

    def encode_one(arguments: dict[str, Any]) -> str:
        try:
            return encode(**arguments)
        except PayloadError as error:
            name_option(error, first, arguments)
            raise

    may_be_bare = not options and not first.is_limited
    if isinstance(calls, list | tuple) and may_be_bare and authority.is_nobody(first):
        given = [_arguments(first, index, call) for index, call in enumerate(calls)]
        if not [call for call in calls if type(call) is Request and call.options]:
            if first.submit_hooks and given:  # once for all of them
                headers = hooked_headers(first, {"correlation_id": like.correlation_id}, len(given))
                like = replace(like, headers=headers)

            def encode_given(call: dict[str, Any]) -> str:
                try:
                    return encode(**call)
                except PayloadError as error:
                    name_option(error, first, call)
                    number = next(index for index, item in enumerate(given) if item is call)
                    error.add_to_message(before=f"calls[{number}]: ")
                    raise

            return SameKindJobs(like, given, encode_given, may_wait=first.signature.is_inert)
    may_be_bare = may_be_bare and not first.submit_hooks  # which are called for each of them
    texts: list[str] = []
    jobs: list[NewJob] = []
    for index, call in enumerate(calls):
        arguments = _arguments(first, index, call)
        own = _options(call, options)
        try:
            if may_be_bare and not jobs and not own and authority.is_nobody(first):
                texts.append(encode_one(arguments))
            else:
                jobs.append(new_job(first, (), arguments, own, authority))
        except WindlassError as error:
            error.add_to_message(before=f"calls[{index}]: ")
            raise
    bare = SameKindJobs(like, texts, str)
    return [*bare.jobs(), *jobs] if jobs else bare


def each_job(first: Phase, calls: Calls, options: Mapping[str, Any], authority: Authority) -> list[NewJob]:
    """Make the requests of a call of ``enqueue_many``, one for each job."""
    jobs: list[NewJob] = []
    for index, call in enumerate(calls):
        arguments = _arguments(first, index, call)
        try:
            jobs.append(new_job(first, (), arguments, _options(call, options), authority))
        except WindlassError as error:
            error.add_to_message(before=f"calls[{index}]: ")
            raise
    return jobs


def _options(call: Any, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of one job: those of its request before those of the call."""
    return {**options, **call.options} if type(call) is Request and call.options else options


def _arguments(first: Phase, index: int, call: Any) -> dict[str, Any]:
    """Arguments by name, from a request of this kind, a mapping, or a row of a database."""
    if type(call) is Request:
        if call.phase is first or (
            first.registry is not None and call.phase.in_registry(first.registry) is first
        ):
            return call.arguments
        problem, cure = f"is a request of {call.kind}", f"give requests of {first.kind} of this app"
        raise PayloadError(f"calls of {first.kind}", f"calls[{index}]", problem, cure)
    try:
        return dict(**call)
    except TypeError as error:
        problem = "has keys that are no text" if isinstance(call, Mapping) else f"is {a_type(call)}"
        example = ", ".join(f"'{name}': ..." for name in first.signature.parameters)
        cure = f"give a mapping of arguments, for example {{{example}}}"
        raise PayloadError(f"calls of {first.kind}", f"calls[{index}]", problem, cure) from error
