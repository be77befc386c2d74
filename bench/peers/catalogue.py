"""Which peers are measured, in which version, with which settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Database = Literal["postgresql", "sqlite"]


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One peer as it is measured; two may share an environment and differ in their options."""

    name: str
    environment: str
    runtime: Literal["python", "node"] = "python"
    requirements: tuple[str, ...]
    script: str
    database: Database
    settings: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The pinned version; the first requirement is the peer itself."""
        return self.requirements[0].replace("==", "@").rpartition("@")[2]


# Sizes are those that came out best in earlier measurements, where there were several.
_HUEY = ("huey==3.5.4",)
_DEFINITIONS = (
    Definition(
        name="pgqueuer",
        environment="pgqueuer",
        requirements=("pgqueuer==1.6.0", "asyncpg", "uvloop", "psycopg[binary]"),
        script="pgqueuer_peer.py",
        database="postgresql",
        settings="asyncpg, one connection, uvloop, batch_size 500, concurrency unlimited",
        options={"batch_size": 500},
    ),
    Definition(
        name="procrastinate",
        environment="procrastinate",
        requirements=("procrastinate==3.10.0", "psycopg[binary,pool]"),
        script="procrastinate_peer.py",
        database="postgresql",
        settings="async task, concurrency 30, psycopg pool of 4 to 20, finished jobs kept",
        options={"concurrency": 30, "pool": [4, 20]},
    ),
    Definition(
        name="graphile-worker",
        environment="graphile-worker",
        runtime="node",
        requirements=("graphile-worker@0.17.3",),
        script="graphile_peer.mjs",
        database="postgresql",
        settings="Node, concurrentJobs 24, localQueue.size 500, completeJobBatchDelay 0",
        options={"concurrentJobs": 24, "localQueueSize": 500, "completeJobBatchDelay": 0},
    ),
    Definition(
        name="huey",
        environment="huey",
        requirements=_HUEY,
        script="huey_peer.py",
        database="sqlite",
        # Its command logs two lines a job unless told otherwise.
        settings="SqliteHuey, fsync off, one thread, polling every 10 ms, its command's log; a job leaves the store before it runs",
        options={"fsync": False, "delay": 0.01, "log": True},
    ),
    Definition(
        name="huey-quiet",
        environment="huey",
        requirements=_HUEY,
        script="huey_peer.py",
        database="sqlite",
        settings="the same without a log",
        options={"fsync": False, "delay": 0.01, "log": False},
    ),
    Definition(
        name="huey-fsync",
        environment="huey",
        requirements=_HUEY,
        script="huey_peer.py",
        database="sqlite",
        # What SqliteHuey() does by itself: fsync=None, the default of this version, leaves SQLite at synchronous=FULL.
        settings="the same with fsync on and its command's log",
        options={"fsync": True, "delay": 0.01, "log": True},
    ),
)
_BY_NAME = {definition.name: definition for definition in _DEFINITIONS}
NAMES = tuple(_BY_NAME)


def look_up(names: Iterable[str]) -> list[Definition]:
    """The definitions of some names, each once; ValueError for a name that is not there."""
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in _BY_NAME]
    if unknown:
        raise ValueError(f"there is no peer {', '.join(map(repr, unknown))}; there are: {', '.join(NAMES)}")
    return [_BY_NAME[name] for name in wanted]
