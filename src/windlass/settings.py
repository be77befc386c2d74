"""All settings of an instance, with the meaning of each beside its default.

Durations are seconds. ``gentle()`` gives the conservative intervals of systems without heartbeats and notifications: five minutes
until a job counts as stuck, a scan a minute, ten jobs a claim.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from windlass.errors import ConfigError, check_names
from windlass.ranges import Duration, Range

SHORTEST = 0.01  # seconds between two checks; a shorter interval would keep a core busy
LONGEST = 30 * 86_400  # seconds; longer than any reasonable wait, and within the range of dates and timers
MOST_DAYS = 3_650  # for what is kept
MOST_PROCESSORS = 100_000  # of one phase in one instance
PROCESSORS = 10  # of a phase without its own number
TIME_LIMIT = 300.0  # seconds; of an attempt of a phase without its own limit


_GROUP_SIGNS = frozenset(" ,=*?[]\t\n")
_INTERVAL = Duration(SHORTEST, LONGEST, "seconds")
_WAIT = Duration(0, LONGEST, "seconds")
PROCESSOR_RANGE = Range(1, MOST_PROCESSORS, is_whole=True)
RETENTION = Duration(0, MOST_DAYS * 86_400, "seconds", or_none="keeping them for ever")
RANGES: Mapping[str, Range] = {
    "lease": _INTERVAL,
    "heartbeat": _INTERVAL,
    "margin": _WAIT,
    "recovery": _INTERVAL,
    "crash_cap": Range(1, 1000, is_whole=True),
    "death_cap": Range(1, 1000, is_whole=True),
    "scan": _INTERVAL,
    "scan_unheard": _INTERVAL,
    "page": Range(1, 10_000, is_whole=True),
    "prefetch": Duration(0, LONGEST, "seconds", or_none="as long as a claim takes"),
    "quiet": _WAIT,
    "capacity": Range(1, 1_000_000, is_whole=True),
    "per_cycle": Range(1, 10_000, is_whole=True),
    "cycle": _INTERVAL,
    "max_concurrent_calls": Range(1, 1_000_000, is_whole=True, or_none="no limit"),
    "health": _INTERVAL,
    "cancel_grace": _WAIT,
    "blocked_after": _WAIT,
    "chunk_size": Range(1, 1_000_000_000, is_whole=True),
    "chunk_attempts": Range(1, 32_000, is_whole=True),
    "chunk_step": Duration(0.001, LONGEST, "seconds"),
    "memory_limit": Range(16 * 1024**2, 2**62, is_whole=True, or_none="no limit"),
    "grace": _WAIT,
    "pressure": _INTERVAL,
    "unserved": _INTERVAL,
    "fail_unserved": Duration(0, MOST_DAYS * 86_400, "seconds", or_none="never"),
    "rollup": _INTERVAL,
    "rollup_days": Duration(0, MOST_DAYS, "days"),
    "erase_principal_after": Duration(0, MOST_DAYS * 86_400, "seconds", or_none="as long as the job"),
    "retention_completed": RETENTION,
    "retention_failed": RETENTION,
    "retention_cancelled": RETENTION,
}
"""The allowed values of each number. Settings that are not numbers are checked separately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one instance finds, holds, runs and gives back jobs."""

    # Holding jobs
    lease: float = 30.0  # how long other instances wait before they take over this instance's jobs
    heartbeat: float = 10.0  # interval of renewals; three fit into a lease
    margin: float = 5.0  # an instance that could not renew stops its jobs this long before the lease ends
    recovery: float = 5.0  # how often each instance checks for expired leases
    crash_cap: int = 3  # a job that took its own process down this often fails
    death_cap: int = 10  # a job that was running at so many deaths of its instance fails

    # Finding jobs
    scan: float = 5.0  # interval of scans for jobs whose notification was lost
    scan_unheard: float = 1.0  # the same without notifications
    page: int = 500  # most jobs per claim
    prefetch: float | None = None  # claim ahead as many jobs as end in this time; None: while a claim takes
    quiet: float = 0.0  # do not claim jobs that changed less than this ago

    # Giving jobs to processors
    capacity: int = 1000  # claimed jobs that may wait in memory, per phase
    per_cycle: int = 3  # jobs a phase is given before the next phase has its turn
    cycle: float = 5.0  # how often idle processors are given waiting jobs in any case
    processors: Mapping[str, int] = field(default_factory=dict)  # per phase; other phases as defined
    phases: tuple[str, ...] | None = None  # serve only these phases, kinds, groups and patterns; None is all
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)  # names for sets of phases and kinds
    max_concurrent_calls: int | None = None  # most jobs that run at once, across all phases of this instance

    # Running
    health: float = 30.0  # how often the health of the instance is checked
    cancel_grace: float = 5.0  # for a job that was asked to stop, before its processor is replaced
    blocked_after: float = 1.0  # an event loop blocked for so long is logged, with the job that blocks it
    memory_limit: int | None = None  # bytes a process of executor="process" may take beyond its size at start

    # Chunks
    chunk_size: int = 1000  # records per chunk of a loop without its own size
    chunk_attempts: int = 3  # tries of a chunk whose loop and phase have no policy
    chunk_step: float = (
        1.0  # such a chunk waits this long after its first failure, twice as long after the second
    )

    # Stopping
    grace: float = 30.0  # for running jobs when the instance stops

    # Pipelines
    pressure: float = 1.0  # how often phases with max_waiting are checked
    unserved: float = 30.0  # how often the instance checks for phases that no instance serves
    fail_unserved: float | None = 3600.0  # a job in a removed phase that no instance serves fails after this

    # Keeping
    rollup: float = 10.0  # how often the statistics of the minute are written
    rollup_days: float = 14.0  # how long the statistics are kept
    retention_completed: float | None = (
        None  # completed jobs are pruned so long after their end; None keeps them
    )
    retention_failed: float | None = None  # the same for failed jobs
    retention_cancelled: float | None = None  # the same for cancelled jobs
    retention_archive: str | None = None  # pruned jobs are first appended to this file, as lines of JSON
    erase_principal_after: float | None = (
        None  # principals are erased so long after the end; None: with the job
    )

    def __post_init__(self) -> None:
        for name, allowed in RANGES.items():
            allowed.check(name, getattr(self, name))
        if self.heartbeat + self.margin >= self.lease:
            raise ConfigError(
                "lease",
                self.lease,
                f"more than heartbeat ({self.heartbeat:g} s) + margin ({self.margin:g} s); raise it, or lower those",
            )
        _names("phases", self.phases)
        _mapping("processors", self.processors)
        for phase, count in self.processors.items():
            PROCESSOR_RANGE.check(f"processors.{phase}", count)
        _check_groups(self.groups)
        archive: object = self.retention_archive
        if archive is not None and not (isinstance(archive, str) and archive):
            raise ConfigError("retention_archive", archive, "the name of a file, or None for no archive")
        if self.fail_unserved == 0:
            raise ConfigError("fail_unserved", self.fail_unserved, "seconds above 0, or None for never")

    @classmethod
    def gentle(cls, **changes: Any) -> Self:
        """Settings of a system that only polls: a scan a minute for ten jobs that did not change for half a minute, and a check for stuck
        jobs every five minutes. Other numbers (ten processors, three jobs a cycle of five seconds, a thousand jobs in memory, a health
        check every half minute, a thousand records a chunk, three tries of a chunk) are the defaults."""
        return cls(
            **{
                "lease": 300.0,
                "heartbeat": 60.0,
                "recovery": 300.0,
                "scan": 60.0,
                "scan_unheard": 60.0,
                "page": 10,
                "prefetch": 0.0,
                "quiet": 30.0,
                **changes,
            }
        )

    def changed(self, **changes: Any) -> Settings:
        """These settings with some of them changed; an unknown name is refused."""
        check_names("setting", changes, (item.name for item in fields(self)))
        return replace(self, **changes)


def _names(name: str, value: object) -> None:
    is_list = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
    if value is not None and not (is_list and value and all(isinstance(item, str) for item in value)):  # type: ignore[attr-defined]
        raise ConfigError(
            name, value, "a tuple of one or more names, for example ('welcome',), or None for all"
        )


def _check_groups(value: object) -> None:
    example = "{'heavy': ('report*', 'sites')}"
    if not isinstance(value, Mapping):
        raise ConfigError("groups", value, f"a mapping from names to phases, for example {example}")
    for name, items in value.items():
        if not isinstance(name, str) or not name or not _GROUP_SIGNS.isdisjoint(name):
            raise ConfigError("groups", name, f"a name without spaces, commas, '=' or wildcards; {example}")
        if items is None:
            raise ConfigError(f"groups.{name}", items, f"one or more names or patterns of phases; {example}")
        _names(f"groups.{name}", items)


def _mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(name, value, "a mapping from phases to whole numbers, for example {'welcome': 4}")
