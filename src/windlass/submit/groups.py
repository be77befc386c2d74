"""Jobs that are stored together because some wait for others: batches and chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from windlass.errors import ConfigError, WindlassError
from windlass.handlers.registry import Registry
from windlass.model import After, DependencyPolicy, NewJob
from windlass.principals.authority import Authority
from windlass.store.ids import is_id
from windlass.store.jobs.checked import CheckedJob, check
from windlass.submit.options import SubmittedJob
from windlass.submit.request import Request

Member = Request[Any, Any] | SubmittedJob | str
"""A member of a batch: a request, or a job that exists."""


def batch_jobs(
    requests: Iterable[Member], then: Request[Any, Any], authority: Authority, registry: Registry
) -> tuple[list[CheckedJob], list[str]]:
    """The jobs of a batch, the one that waits for all others last, and the ids of its members in the order given. Refused before anything is
    stored."""
    if not isinstance(then, Request):
        raise ConfigError("then", type(then).__name__, "a request, for example then=summary.request()")
    then = _of_app("then", then, registry)
    if found := [
        name for name in ("key", "debounce", "throttle", "id") if then.options.get(name) is not None
    ]:
        raise ConfigError(
            "then",
            then.kind,
            because=f"its option {found[0]} may find a job that exists, which would not wait for the members; leave it out",
        )
    jobs: list[NewJob] = []
    places: list[str | None] = []
    if isinstance(requests, Request) or not isinstance(requests, Iterable):
        raise ConfigError("requests", type(requests).__name__, "a list of requests")
    for index, request in enumerate(requests):
        if isinstance(request, Request):
            own = _of_app(f"requests[{index}]", request, registry)
            jobs.append(_numbered(index, own, authority))
            places.append(None)
        else:
            places.append(_existing(index, request))
    made = check(jobs)
    ids = iter(made)
    members = [place or next(ids).id for place in places]
    after = [After(member, DependencyPolicy.RUN) for member in dict.fromkeys(members)]
    return [*made, *check([then.new_job(authority, after)])], members


def chain_jobs(
    requests: Sequence[Request[Any, Any]], policy: str, authority: Authority, registry: Registry
) -> list[CheckedJob]:
    """The jobs of a chain, each waiting for the one before it."""
    if not requests:
        raise ConfigError("chain", [], "one request or more")
    try:
        chosen = DependencyPolicy(policy)
    except ValueError:
        raise ConfigError("policy", policy, "cancel, wait or run") from None
    jobs: list[CheckedJob] = []
    for index, request in enumerate(requests):
        if not isinstance(request, Request):
            raise ConfigError(
                f"chain[{index}]", type(request).__name__, "a request, for example load.request(day=7)"
            )
        own = _of_app(f"chain[{index}]", request, registry)
        jobs += check([_numbered(index, own, authority, [After(job.id, chosen) for job in jobs[-1:]])])
    return jobs


def _of_app(place: str, request: Request[Any, Any], registry: Registry) -> Request[Any, Any]:
    """The request with the defaults of this app. A request of a kind of another app is refused: no worker of this one would run it."""
    phase = request.phase.in_registry(registry)
    if phase is None:
        raise ConfigError(
            place, request.kind, "a request of a kind of this app; this one was made by another app"
        )
    return request if phase is request.phase else Request(phase, (), request.arguments, request.options)


def _numbered(
    index: int, request: Request[Any, Any], authority: Authority, after: Sequence[After] = ()
) -> NewJob:
    """The job of a request; an error says which of the requests it was found in."""
    try:
        return request.new_job(authority, after)
    except WindlassError as error:
        error.add_to_message(before=f"requests[{index}]: ")
        raise


def _existing(index: int, member: Any) -> str:
    job_id = member.id if isinstance(member, SubmittedJob) else member
    if not isinstance(job_id, str) or not is_id(job_id):
        kind = type(member).__name__ if not isinstance(member, str) else member
        raise ConfigError(
            f"requests[{index}]", kind, "a request, for example resize.request(photo=7), or a job that exists"
        )
    return job_id
