"""One sample of everything: the phases with their counts and rates, and the instances with their processors."""

from __future__ import annotations

from windlass.control.instances import views
from windlass.control.system_views import PhaseSample as PhaseSample
from windlass.control.system_views import Sample as Sample
from windlass.features import Store
from windlass.model import Counts

_ENDS = ("completed", "failed", "cancelled")


def read_sample(store: Store, before: Sample | None) -> Sample:
    """Read the present; ``before`` is the sample before, for rates."""
    now = store.now()
    counts, oldest = store.phases.counts(), store.phases.oldest()
    paused = {pause.phase for pause in store.phases.paused()}
    seconds = 0.0 if before is None else (now - before.at).total_seconds()
    phases = {}
    for name, one in sorted(counts.items()):
        old = None if before is None else before.phases.get(name)
        then = Counts() if old is None else old.counts
        ended = {
            state: 0 if before is None else max(0, getattr(one, state) - getattr(then, state))
            for state in _ENDS
        }
        phases[name] = PhaseSample(
            counts=one,
            oldest=oldest.get(name, 0.0),
            is_paused=name in paused,
            ended=ended,
            per_second=sum(ended.values()) / seconds if seconds > 0 else 0.0,
        )
    return Sample(1 if before is None else before.number + 1, now, phases, views(store, now))
