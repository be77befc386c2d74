"""Fixtures for the tests of the store's verbs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.bystanders import Crowd, gather
from tests.conformance.life import LEASE
from windlass.features import Store
from windlass.store.jobs.holder import Holder


@pytest.fixture
def crowd(store: Store, opened: Callable[[], Store]) -> Crowd:
    """Jobs in every state, in every table."""
    return gather(store, opened())


@pytest.fixture
def dying(opened: Callable[[], Store]) -> Holder:
    """An instance that will not beat again."""
    return opened().join(lease=LEASE, info={"host": "x"})
