"""Which days become months, in steps of which size; and months are pruned by rows and dropped whole."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.interleavings import years
from tests.interleavings.sessions import Open, Waiting, assert_consistent, until_blocked
from tests.interleavings.years import FIRST, LAST, LAST_USED, MONTH
from windlass.model import Retention
from windlass.store.postgres import months, partitions
from windlass.upkeep.history import History

pytestmark = pytest.mark.timing


@pytest.fixture
def old(postgres_dsn_every: str) -> str:
    """A database with six old days of one month."""
    years.fill(postgres_dsn_every, FIRST, LAST_USED)
    return postgres_dsn_every


def test_months_are_pruned_by_rows_and_dropped_whole(old: str, stores: Open) -> None:
    """While some of its days are kept, a month's jobs go one by one; then it is dropped."""
    store = stores(old)
    years.merge(old)
    half = datetime.now(UTC) - partitions.midnight(FIRST + timedelta(days=3))
    assert store.upkeep.prune(Retention(completed=half, failed=half, cancelled=half)) == 12
    assert MONTH in years.names(old) and len(years.ids(old)) == 12
    assert_consistent(old, store)
    over = datetime.now(UTC) - partitions.midnight(LAST + timedelta(days=1))
    assert store.upkeep.prune(Retention(completed=over, failed=over, cancelled=over)) == 12
    assert MONTH not in years.names(old) and years.ids(old) == []
    assert_consistent(old, store)


def test_a_prune_waits_for_a_step_and_then_drops_whole_days(old: str, stores: Open) -> None:
    """A month in the making must not make a prune go job by job; and what is detached already is not taken for a day to drop."""
    store = stores(old)
    years.until(old, "copied")
    over = datetime.now(UTC) - partitions.midnight(LAST + timedelta(days=1))
    with psycopg.connect(old) as instance:
        assert years.swap(instance).merged == 24
        call = Waiting(lambda: store.upkeep.prune(Retention(completed=over, failed=over, cancelled=over)))
        until_blocked(old, call)
        instance.commit()
        assert call.result() == 24
    assert MONTH not in years.names(old)
    years.merge(old)
    assert years.ids(old) == []
    assert_consistent(old, store)


def test_months_that_are_too_young_or_few_are_left_alone(old: str) -> None:
    names = years.names(old)
    last_moment = LAST + months.AGE
    assert years.step(old, around=last_moment) is None
    with psycopg.connect(old, autocommit=True) as connection:
        assert months.step(connection, most=len(names)) is None
        assert months.step(connection, most=len(names) - 1) is not None
        assert years.step(old, around=last_moment + timedelta(days=1)) is not None


def test_an_instance_that_had_to_wait_begins_no_month_that_need_not_be(old: str, stores: Open) -> None:
    """A prune has the lock: the duty comes later and later; then it has nothing to do, since there are few partitions."""
    history = History(stores(old))
    with psycopg.connect(old) as prune:
        prune.execute("SELECT pg_advisory_xact_lock(%s)", (partitions.REMOVING,))
        assert [history.run() for _ in range(8)] == [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0]
    assert history.run() is None
    assert MONTH not in years.names(old)


@pytest.mark.parametrize(("took", "page"), [(0.01, 2000), (0.2, 1000), (1.0, 500)])
def test_pages_are_as_long_as_other_duties_can_wait(old: str, stores: Open, took: float, page: int) -> None:
    """After each the duty pauses for as long as it took."""
    clock = itertools.count()
    history = History(stores(old), monotonic=lambda: next(clock) * took)
    years.until(old, "began")
    assert history.run() == pytest.approx(took)
    assert history._page == page
    assert [history.run() for _ in range(4)][-1] is None, "copied, swapped and dropped"
    assert MONTH in years.names(old)


def test_a_day_of_a_merged_month_is_not_missing(old: str) -> None:
    years.merge(old)
    with psycopg.connect(old, autocommit=True) as connection:
        assert partitions.missing(connection, around=FIRST + timedelta(days=3)) == []
