"""Other libraries on the same machine in the same run, so that a figure of Windlass has something to stand beside.

    from bench import peers

    for peer in peers.available(["pgqueuer", "huey"]):
        place = admin_dsn if peer.database == "postgresql" else folder
        result = peer.measure_drain(place, jobs=20_000, processes=1)

Each peer lives in an environment of its own under ``.bench/`` (install.py) and is driven through a script of its own
(scripts/, which describes the protocol). Results are plain dicts; one that is not to be trusted carries "wrong".
"""

from __future__ import annotations

from bench.peers.catalogue import NAMES
from bench.peers.databases import fresh_database, settle
from bench.peers.run import Peer, Prepared, available, prepare

__all__ = ["NAMES", "Peer", "Prepared", "available", "fresh_database", "prepare", "settle"]
