"""Phases, kinds, and what is read about the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from windlass.audit.record import AuditPage
from windlass.client import records
from windlass.client.asks.ask import Ask, Seconds, Stream, given, moment, name_of, no_result, post, seconds
from windlass.client.decoding import made
from windlass.client.records import each, one
from windlass.control.system_views import DeployMark, HistoryPoint, Overview, PipelineView, Sample
from windlass.model import Counts, PhasePause
from windlass.model.failures import Failures

T = TypeVar("T")


def names() -> Ask[Sequence[str]]:
    """All phases that are known."""
    return _phases(lambda phase: phase["name"], list)


def counts() -> Ask[Mapping[str, Counts]]:
    """Jobs per state of every phase."""
    return _phases(lambda phase: (phase["name"], made(Counts, phase["counts"])), dict)


def oldest() -> Ask[Mapping[str, float]]:
    """Seconds that the oldest queued job of every phase has been ready; 0.0 where none is queued."""
    return _phases(lambda phase: (phase["name"], phase["oldest"]), dict)


def paused() -> Ask[Sequence[PhasePause]]:
    """The phases that are paused now."""
    return _phases(
        lambda phase: phase,
        lambda found: [
            made(PhasePause, item["pause"], phase=item["name"]) for item in found if item["pause"]
        ],
    )


def pause(phase: str, reason: str, *, lasts: Seconds | None = None) -> Ask[None]:
    """Stop claims of a phase on every instance; running jobs continue. Without ``lasts`` until it is resumed."""
    body = given(reason=reason, lasts=seconds(lasts))
    return post(f"/v1/phases/{name_of(phase)}/pause", body, no_result)


def resume(phase: str, reason: str | None = None) -> Ask[bool]:
    """Serve a phase again; False if it was not paused."""
    path = f"/v1/phases/{name_of(phase)}/resume"
    return post(path, given(reason=reason), records.changed)


def overview() -> Ask[Overview]:
    """All phases, the instances, and what is wrong."""
    return Ask("GET", "/v1/overview", one(Overview))


def list_failures(*, kind: str | None = None, phase: str | None = None) -> Ask[Failures]:
    """Failed jobs by kind, phase, type and place of the error, the latest group first."""
    return Ask("GET", "/v1/failures", one(Failures), given(kind=kind, phase=phase))


def list_pipelines() -> Ask[Sequence[PipelineView]]:
    """All kinds by name; a plain job is a pipeline of one phase."""
    return Ask("GET", "/v1/pipelines", each("pipelines", one(PipelineView)))


def get_pipeline(name: str) -> Ask[PipelineView]:
    """One kind; ``ConfigError`` if the application of the server defines none of this name."""
    return Ask("GET", f"/v1/pipelines/{name_of(name)}", one(PipelineView))


def list_audit(
    *,
    target: str | None = None,
    name: str | None = None,
    actor: str | None = None,
    since: datetime | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> Ask[AuditPage]:
    """Records of the audit trail from newest to oldest, a page at a time."""
    query = given(target=target, name=name, actor=actor, since=moment(since), cursor=cursor, limit=limit)
    return Ask("GET", "/v1/audit", one(AuditPage), query)


def read_history(
    *, since: datetime, until: datetime | None = None, phase: str | None = None, step: int = 60
) -> Ask[Sequence[HistoryPoint]]:
    """Statistics over time, in order: a point for each minute, hour or day (``step`` is its seconds) of each phase."""
    query = given(since=moment(since), until=moment(until), phase=phase, step=step)
    return Ask("GET", "/v1/history", each("points", records.history_point_of), query)


def mark_deploy(text: str) -> Ask[DeployMark]:
    """Mark this moment on the charts."""
    return post("/v1/deploys", {"text": text}, one(DeployMark))


def list_deploys(*, since: datetime | None = None, limit: int = 50) -> Ask[Sequence[DeployMark]]:
    """Marks of deploys, newest first."""
    return Ask(
        "GET", "/v1/deploys", each("deploys", one(DeployMark)), given(since=moment(since), limit=limit)
    )


def samples() -> Stream[Sample]:
    """Samples of everything, one a second."""
    return Stream("/v1/events?topics=overview", records.sample_of)


def _phases(read: Callable[[Any], Any], gather: Callable[[Iterable[Any]], T]) -> Ask[T]:
    return Ask("GET", "/v1/phases", lambda found: gather(map(read, found["phases"])))
