"""Phases: how many jobs are in which state, and whether the phase is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from windlass.control.noun import Noun, off_loop
from windlass.errors import ConfigError, did_you_mean
from windlass.model import Counts, PhasePause, as_duration


class PhaseControl(Noun):
    """Counts, pauses and resumes phases."""

    def counts(self) -> Mapping[str, Counts]:
        """Jobs per state of every phase ever used, without scanning jobs."""
        self._actor.require_all("count the jobs of phases")
        return self._store.phases.counts()

    def oldest(self) -> Mapping[str, float]:
        """Seconds that the oldest queued job of every phase has been ready; 0.0 where none is queued."""
        self._actor.require_all("read the queues of phases")
        return self._store.phases.oldest()

    def paused(self) -> Sequence[PhasePause]:
        """The phases that are paused now."""
        self._actor.require_all("read which phases are paused")
        return self._store.phases.paused()

    def names(self) -> Sequence[str]:
        """All phases that are known: of this application's code, of living instances, and those that ever had a job."""
        self._actor.require_all("list phases")
        return sorted({*self._source.registry.phases, *self._store.phases.known()})

    def pause(self, phase: str, reason: str, *, lasts: timedelta | float | None = None) -> None:
        """Stop claims of a phase on every instance; running jobs continue. Without ``lasts`` (seconds) until it is resumed."""
        self._actor.require_all("pause a phase")
        self._require_known(phase)
        record = self._record("phase.pause", "phase", phase, reason, before=self._pause_of(phase))
        self._audited(
            record, lambda also: self._store.phases.pause(phase, reason, lasts=as_duration(lasts), also=also)
        )

    def resume(self, phase: str, reason: str | None = None) -> bool:
        """Serve a phase again; False if it was not paused."""
        self._actor.require_all("resume a phase")
        self._require_known(phase)
        before = self._pause_of(phase)
        record = self._record("phase.resume", "phase", phase, reason, before=before)
        if before is None:
            return False
        return self._audited(record, lambda also: self._store.phases.resume(phase, also=also))

    def _require_known(self, phase: str) -> None:
        known = self.names()
        if phase not in known and self._pause_of(phase) is None:
            near = did_you_mean(phase, known)
            raise ConfigError(
                "phase",
                phase,
                f"a phase that this application defines, an instance serves, or that had a job{near}",
            )

    def _pause_of(self, phase: str) -> Mapping[str, str | None] | None:
        for pause in self._store.phases.paused():
            if pause.phase == phase:
                until = None if pause.until is None else pause.until.isoformat()
                return {"since": pause.since.isoformat(), "until": until, "reason": pause.reason}
        return None

    counts_async = off_loop(counts)
    oldest_async = off_loop(oldest)
    paused_async = off_loop(paused)
    names_async = off_loop(names)
    pause_async = off_loop(pause)
    resume_async = off_loop(resume)
