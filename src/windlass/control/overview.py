"""The state of the whole: what each phase has to do, who does it, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.control.instances import InstanceControl
from windlass.control.noun import Noun, off_loop
from windlass.control.phases import PhaseControl
from windlass.control.system_views import InstanceView
from windlass.control.system_views import Overview as Overview
from windlass.control.system_views import PhaseStatus as PhaseStatus
from windlass.control.why.texts import many, said, span
from windlass.model import Counts, PhasePause


class OverviewControl(Noun):
    """Reads the state of the whole: phases, instances, problems."""

    def read(self) -> Overview:
        """The state of all phases, without scanning jobs. Processors are as of the last heartbeats."""
        phases = PhaseControl(self._source, self._actor)
        instances = InstanceControl(self._source, self._actor).list()
        alive = [item for item in instances if item.is_alive]
        counts, oldest = phases.counts(), phases.oldest()
        paused = {pause.phase: pause for pause in phases.paused()}
        found = [
            _status(name, counts.get(name, Counts()), oldest.get(name, 0.0), paused.get(name), alive)
            for name in phases.names()
        ]
        return Overview(found, instances, [*_unserved(found, paused), *_lost(instances), *_degraded(alive)])

    def ping(self) -> None:
        """Read a table of the database; an error of the database if that is not possible."""
        self._store.phases.paused()  # few rows; the clock of SQLite is not that of the file

    read_async = off_loop(read)
    ping_async = off_loop(ping)


def _status(
    name: str, counts: Counts, oldest: float, pause: PhasePause | None, alive: Sequence[InstanceView]
) -> PhaseStatus:
    serving = [
        phase
        for item in alive
        if item.state not in ("stopping", "stopped")
        for phase in item.phases
        if phase.name == name
    ]
    busy, size = sum(one.busy for one in serving), sum(one.size for one in serving)
    held = sorted({one.held_by for one in serving if one.held_by})
    waits = ""
    if pause is not None:
        end = (
            "until it is resumed"
            if pause.until is None
            else f"until {pause.until.isoformat(timespec='seconds')}"
        )
        waits = f"paused {end}: {said(pause.reason)}"
    elif counts.queued and not serving:
        waits = "no living instance serves it"
    elif counts.queued and held:
        waits = f"held back: {', '.join(held)} is full"
    elif counts.queued and size and busy >= size:
        waits = "all processors are busy"
    return PhaseStatus(
        name=name,
        counts=counts,
        oldest=oldest,
        busy=busy,
        processors=size,
        instances=len(serving),
        waits=waits,
        pause=pause,
    )


def _unserved(phases: Sequence[PhaseStatus], paused: Mapping[str, PhasePause]) -> Sequence[str]:
    return [
        f"no living instance serves the phase {phase.name}, and {many(phase.counts.queued)} {'waits' if phase.counts.queued == 1 else 'wait'} there, the oldest "
        f"for {span(phase.oldest)}; start a worker that serves it"
        for phase in phases
        if phase.counts.queued and not phase.instances and phase.name not in paused
    ]


def _lost(instances: Sequence[InstanceView]) -> Sequence[str]:
    return [
        f"instance {item.id} on {said(item.host)} is lost: its last heartbeat was at {item.heartbeat_at.isoformat(timespec='seconds')}, and recovery "
        "gives its jobs to others"
        for item in instances
        if item.state == "lost"
    ]


def _degraded(alive: Sequence[InstanceView]) -> Sequence[str]:
    """A sentence for each part of an instance that is not well, with the cure."""
    return [
        f"{part.part} of instance {item.id} on {said(item.host)} is {part.state}: {part.seen}{'. ' if part.advice else ''}{part.advice}"
        for item in alive
        for part in item.degraded
        if item.state == "running"
    ]
