"""Phases through the control service: unknown names, pauses and their audit records."""

from __future__ import annotations

import pytest

from tests.control.conftest import ANNA, BOSS
from windlass import App, ConfigError, NotAllowedError
from windlass.audit.record import AuditRecord
from windlass.features import Store


def test_a_pause_and_its_end_are_audited_with_the_reason(app: App) -> None:
    control = app.acting_as(BOSS)
    control.phases.pause("welcome", "database failover", lasts=60)
    assert [(pause.phase, pause.reason) for pause in control.phases.paused()] == [
        ("welcome", "database failover")
    ]
    assert control.phases.resume("welcome", "done")
    resumed, paused = app.audit.list().records
    assert (paused.actor, paused.act, paused.name, paused.reason) == (
        "boss",
        "phase.pause",
        "welcome",
        "database failover",
    )
    assert paused.before is None and paused.at is not None
    assert resumed.act == "phase.resume" and resumed.before["reason"] == "database failover"


def test_resuming_a_phase_that_is_not_paused_changes_and_records_nothing(app: App) -> None:
    assert not app.phases.resume("welcome")
    assert not app.audit.list().records


def test_unknown_phases_are_refused_with_a_suggestion(app: App) -> None:
    with pytest.raises(ConfigError, match=r"welcom.*did you mean.*welcome"):
        app.phases.pause("welcom", "x")
    assert not app.phases.paused() and not app.audit.list().records


def test_people_who_see_their_own_jobs_do_not_see_or_change_phases(app: App) -> None:
    phases = app.acting_as(ANNA).phases
    for call in (phases.counts, phases.oldest, phases.paused, phases.names):
        with pytest.raises(NotAllowedError, match="windlass:operator"):
            call()
    with pytest.raises(NotAllowedError):
        phases.pause("welcome", "x")
    assert not app.phases.paused()


def test_the_audit_function_of_the_application_gets_the_same_records(store: Store) -> None:
    records: list[AuditRecord] = []
    with App(store=store, audit=records.append) as app:

        @app.job
        def welcome() -> None: ...

        app.phases.pause("welcome", "x")
    stored = store.audit.list().records
    assert [record.id for record in records] == [record.id for record in stored]


def test_a_failing_audit_function_does_not_undo_the_act(store: Store) -> None:
    def broken(record: AuditRecord) -> None:
        raise RuntimeError("no")

    with App(store=store, audit=broken) as app:

        @app.job
        def welcome() -> None: ...

        app.phases.pause("welcome", "x")
        assert app.phases.paused()
