"""The lease settings of an experiment: Windlass's own in the long form, short ones where a test must not take minutes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from windlass.settings import Settings

_OWN = Settings()


@dataclass(frozen=True)
class Leases:
    """How long a worker holds jobs without a sign of life, and how often others look."""

    lease: float = _OWN.lease
    heartbeat: float = _OWN.heartbeat
    margin: float = _OWN.margin
    recovery: float = _OWN.recovery

    @cached_property
    def settings(self) -> dict[str, object]:
        """As ``--set`` takes them."""
        return {
            "lease": self.lease,
            "heartbeat": self.heartbeat,
            "margin": self.margin,
            "recovery": self.recovery,
        }

    @property
    def recovered_within(self) -> float:
        """The promise: what a dead instance held is taken over within this."""
        return self.lease + self.recovery + 1.0


DEFAULT = Leases()
BRIEF = Leases(lease=3.0, heartbeat=1.0, margin=0.5)
QUICK = Leases(lease=2.0, heartbeat=0.5, margin=0.5, recovery=0.3)
STEADY = Leases(lease=10.0, heartbeat=0.5, margin=0.5, recovery=0.3)
"""For experiments in which no lease may end: on a busy machine a heartbeat may come seconds late."""
