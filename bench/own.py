"""Windlass as one of the measured: the same scripts, the same method as its peers; and the bare statement as the limit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.peers.catalogue import Database, Definition
from bench.peers.run import Peer

HERE = Path(__file__).parent
SCRIPTS = HERE / "peers" / "scripts"
BATCH = 1500


def _own(name: str, script: str, database: Database, settings: str, **options: Any) -> Peer:
    definition = Definition(
        name=name,
        environment=name,
        requirements=("windlass==here",),
        script=script,
        database=database,
        settings=settings,
        options=options,
    )
    return Peer(definition, (sys.executable, str(SCRIPTS / script)), HERE.parent)


WINDLASS = _own(
    "windlass",
    "windlass_peer.py",
    "postgresql",
    f"async handler, {BATCH} processors, batches of {BATCH}",
    processors=BATCH,
    batch=BATCH,
)
WINDLASS_TEN = _own(
    "windlass-10", "windlass_peer.py", "postgresql", "async handler, 10 processors", processors=10, batch=500
)
WINDLASS_ASYNCIO = _own(
    "windlass-10-asyncio",
    "windlass_peer.py",
    "postgresql",
    "async handler, 10 processors, without uvloop",
    processors=10,
    batch=500,
    uvloop=False,
)
WINDLASS_HUNDRED = _own(
    "windlass-100",
    "windlass_peer.py",
    "postgresql",
    "async handler, 100 processors",
    processors=100,
    batch=500,
)
WINDLASS_FIVE, WINDLASS_TWENTY = (
    _own(
        f"windlass-{count}",
        "windlass_peer.py",
        "postgresql",
        f"async handler, {count} processors",
        processors=count,
        batch=500,
    )
    for count in (5, 20)
)
WINDLASS_SQLITE = _own(
    "windlass-sqlite",
    "windlass_peer.py",
    "sqlite",
    f"async handler, {BATCH} processors, batches of {BATCH}, synchronous=FULL",
    processors=BATCH,
    batch=BATCH,
)
RAW = _own(
    "raw-sql", "raw_peer.py", "postgresql", f"the bare statement, batches of {BATCH}", batch_size=BATCH
)
