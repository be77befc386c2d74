"""A principal lives as long as its job can be retried; a setting ends it earlier."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conformance.life import BOOM, claim_one, one
from tests.principals.captured import USER, asked
from windlass.app.app import App
from windlass.clock import ManualClock
from windlass.errors import PrincipalErasedError
from windlass.features import Store
from windlass.settings import Settings

WEEKEND = timedelta(days=3)


def _failed_on_friday(store: Store, clock: ManualClock) -> str:
    days_left = (4 - clock.now().weekday()) % 7
    clock.advance(timedelta(days=days_left))
    store.upkeep.maintain()
    job_id = one(store, principal=USER, max_attempts=1)
    holder = store.join()
    holder.fail(claim_one(holder), BOOM)
    holder.leave()
    return job_id


def _upkeep_until_monday(store: Store, clock: ManualClock, settings: Settings) -> None:
    """Run what an instance does with principals, every few hours until Monday."""
    with App(store=store, settings=settings) as app:
        duties = [duty for duty in app.worker()._duties.all() if duty.name == "principals"]
        monday = clock.now() + WEEKEND
        while clock.now() < monday:
            clock.advance(timedelta(hours=6))
            for duty in duties:
                duty.run()
        assert clock.now().weekday() == 0


@pytest.mark.owner
def test_a_job_that_failed_on_friday_is_retried_on_monday_with_its_principal(
    store: Store, clock: ManualClock
) -> None:
    job_id = _failed_on_friday(store, clock)
    _upkeep_until_monday(store, clock, Settings())
    assert store.jobs.retry(job_id).generation == 2
    captured = store.principals.of(claim_one(store.join()))
    assert captured is not None and captured.principal == USER


@pytest.mark.owner
def test_an_earlier_end_is_a_setting(store: Store, clock: ManualClock) -> None:
    job_id = _failed_on_friday(store, clock)
    _upkeep_until_monday(store, clock, Settings(erase_principal_after=86_400.0))
    assert asked(store, job_id) is None
    with pytest.raises(PrincipalErasedError, match="erase_principal_after"):
        store.jobs.retry(job_id)
