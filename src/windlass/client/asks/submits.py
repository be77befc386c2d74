"""Submitting jobs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypedDict, TypeVar

from windlass.client.asks.ask import Ask, Seconds, as_json, given, seconds
from windlass.client.decoding import made
from windlass.client.records import each, one
from windlass.errors import check_names
from windlass.model import After, Debounce, Enqueued, Throttle

T = TypeVar("T")


class RemoteOptions(TypedDict, total=False):
    """The options of a submit, as those of ``kind.options(...)``."""

    key: str | None
    priority: int
    delay: Seconds | None
    run_at: datetime | None
    expires: Seconds | datetime | None
    debounce: str | Debounce | None
    throttle: Throttle | None
    limit_key: str | None
    after: Iterable[Any]
    correlation_id: str | None
    headers: Mapping[str, str] | None
    max_attempts: int


@dataclass(frozen=True, slots=True)
class NewRemoteJob:
    """A job of a batch: ``NewRemoteJob("report", {"county": "Harju"}, {"priority": 9})``."""

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def order(self) -> dict[str, Any]:
        """The job as requests have it."""
        return _order(self.kind, self.arguments, self.options)


def submit(
    kind: str, arguments: Mapping[str, Any], options: Mapping[str, Any], key: str | None
) -> Ask[Enqueued]:
    """Submit a job."""
    return _keyed("/v1/jobs", _order(kind, arguments, options), one(Enqueued), key)


def submit_many(
    kind: str, rows: Iterable[Mapping[str, Any]], options: Mapping[str, Any], key: str | None
) -> Ask[list[Enqueued]]:
    """Submit a job for each row of arguments."""
    orders = [_order(kind, arguments, options) for arguments in rows]
    return _keyed("/v1/jobs/many", orders, each("jobs", one(Enqueued)), key)


def submit_batch(
    members: Iterable[NewRemoteJob | str], then: NewRemoteJob, key: str | None
) -> Ask[tuple[list[Enqueued], Enqueued]]:
    """Submit jobs, and one that runs when all of them have ended."""
    jobs = [member if isinstance(member, str) else member.order() for member in members]
    return _keyed("/v1/batches", {"jobs": jobs, "then": then.order()}, _batch, key)


def _batch(found: Any) -> tuple[list[Enqueued], Enqueued]:
    return [made(Enqueued, member) for member in found["members"]], made(Enqueued, found["then"])


def _order(kind: str, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """A job of a request."""
    check_names("option", options, RemoteOptions.__annotations__)
    found: dict[str, Any] = {"kind": kind, "arguments": arguments}
    for name, value in options.items():
        if value is not None:
            found[name] = _option(name, value)
    return found


def _option(name: str, value: Any) -> Any:
    match value:
        case timedelta():
            return value.total_seconds()
        case Debounce():
            return given(key=value.key, wait=seconds(value.wait))
        case Throttle():
            return {"key": value.key, "period": seconds(value.period)}
    if name == "debounce" and isinstance(value, str):
        return {"key": value}
    if name == "after":
        return [
            {"job": one.parent, "policy": one.policy} if isinstance(one, After) else getattr(one, "id", one)
            for one in value
        ]
    return value


def _keyed(path: str, body: Any, read: Callable[[Any], T], key: str | None) -> Ask[T]:
    return Ask("POST", path, read, body=as_json(body), headers={"Idempotency-Key": key or uuid.uuid4().hex})
