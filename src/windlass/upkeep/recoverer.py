"""Takes over the jobs of dead instances. A job is run again only if its output does not exist.

The store checks outputs that phases stored with it. A phase may also have a probe of its own ("is my output there?"): such a
job is held by this instance while the probe runs, outside of any transaction. If the probe finds no output, the outcome is the one that
the store would have recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.features import Store
from windlass.handlers.registry import Phase
from windlass.model import (
    Flag,
    Lease,
    Outcome,
    Recovered,
)
from windlass.observe.logger import get_logger
from windlass.store.jobs.instances import HasHolder
from windlass.store.jobs.recovery import judge
from windlass.upkeep.probing import ended_before

log = get_logger("windlass.upkeep")

LIMIT = 500


class Recoverer:
    """One round of recovery, as often as it is called."""

    def __init__(
        self,
        store: Store,
        *,
        instance: HasHolder,
        phases: Mapping[str, Phase],
        death_cap: int,
        record: Callable[[Outcome], None],
        in_thread: Callable[[Callable[[], None]], None],
        on_recovered: Callable[[Recovered], None],
        on_crash: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._instance = instance
        self._phases = phases
        self._probed = [name for name, phase in phases.items() if phase.probe is not None]
        self._death_cap = death_cap
        self._record = record
        self._in_thread = in_thread
        self._on_recovered = on_recovered
        self._on_crash = on_crash

    @property
    def own(self) -> str:
        """The id of the instance that recovers."""
        return self._instance.holder.id

    def run(self) -> None:
        """Recover until nothing is left to recover."""
        while True:
            found = self._store.recovery.recover(
                limit=LIMIT, death_cap=self._death_cap, holder=self._instance.holder, probed=self._probed
            )
            for item in found:
                self._note(item)
                if item.is_held:
                    self._ask(item)
            if len(found) < LIMIT:
                return

    def sweep(self) -> None:
        """Recover one page of processing jobs that no claim row covers."""
        for item in self._store.recovery.sweep_orphans(death_cap=self._death_cap):
            self._note(item)

    def _note(self, item: Recovered) -> None:
        self._on_recovered(item)
        if item.error is not None:
            self._on_crash()

    def _ask(self, item: Recovered) -> None:
        self._in_thread(lambda: self._record(self._judge(item.lease, item.deaths)))

    def _judge(self, lease: Lease, deaths: int) -> Outcome:
        """The outcome of a job whose phase has a probe; a probe that raises found no output."""
        ended = ended_before(self._phases[lease.phase], lease)
        if ended is not None:
            return ended
        if lease.flags & Flag.STARTED:
            self._on_crash()
        return judge(lease, deaths, self._death_cap)
