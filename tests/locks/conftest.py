"""Locks for tests: each closed at the end, on servers that are real."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.locks.server import OwnValkey, patient
from windlass.locks import LockSettings, open_locks
from windlass.locks.fallback import FallbackLocks

Opener = Callable[..., FallbackLocks]


@pytest.fixture
def own_valkey() -> Iterator[OwnValkey]:
    """A running server that the test may hurt."""
    server = OwnValkey()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def valkey_url(valkey_url: str) -> str:
    """A server that all tests of a worker share; it is never hurt."""
    return patient(valkey_url)


@pytest.fixture
def counts() -> Counter[str]:
    """What the locks of ``opened_locks`` counted."""
    return Counter()


@pytest.fixture
def opened_locks(counts: Counter[str]) -> Iterator[Opener]:
    """Opens locks as ``open_locks`` does; ``opened_locks(url, worker="a", ttl_ms=1000)``."""
    made: list[FallbackLocks] = []

    def open_some(url: str | None = None, *, worker: str = "worker-1", **settings: Any) -> FallbackLocks:
        def count(name: str) -> None:
            counts[name] += 1

        made.append(open_locks(LockSettings(url=url, **settings), worker=worker, count=count))
        return made[-1]

    yield open_some
    for locks in made:
        locks.close()
