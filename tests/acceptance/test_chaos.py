"""The short forms of the experiments in ``chaos/``: real workers are killed, frozen and cut off, and a ledger is held against the
database afterwards. ``./dev chaos`` runs the long ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.bed import Bed
from chaos.catalogue import conduct
from windlass.examples.embedded.postgres import PostgresServer
from windlass.store.migrate import migrate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.timing]  # a hang, not a busy machine
# On SQLite with WINDLASS_TEST_LONG=1 only: they wait more than they work, and the whole run has to stay under eight minutes.
STORES = ["postgres", "sqlite"] if os.environ.get("WINDLASS_TEST_LONG") else ["postgres"]
both = pytest.mark.parametrize("bed", STORES, indirect=True)
postgres = pytest.mark.parametrize("bed", ["postgres"], indirect=True)
long = pytest.mark.long  # takes more than ten seconds


@pytest.fixture
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    """A fresh database, and a folder for ledger and logs."""
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'windlass.db'}" if is_sqlite else request.getfixturevalue("postgres_dsn")
    with Bed(url, tmp_path) as made:
        yield made


def holds(name: str, bed: Bed) -> None:
    """Run an experiment's short form; every bar of it must be met but those of time, which ``./dev chaos`` judges on a machine that has
    nothing else to do: beside other tests they are only printed."""
    findings = conduct(name, bed, short=True)
    print(findings.table())
    assert findings.violations_but_times == []


@both
def test_killed_workers_lose_and_double_nothing(bed: Bed) -> None:
    """I-6, I-9: what they held runs again."""
    holds("kill", bed)


@both
def test_a_storm_of_kills_fails_nobody(bed: Bed) -> None:
    """I-6, I-9, I-14: with the caps as they are; pipelines, chunks, fan-ins and schedules, too."""
    holds("storm", bed)


@both
def test_deaths_are_charged_to_those_that_cause_them(bed: Bed) -> None:
    """I-14: crashes of its own process, deaths of its instance, and a good job that others die with."""
    holds("deaths", bed)


@postgres
def test_poison_jobs_fail_and_spare_their_neighbours(bed: Bed) -> None:
    """I-14: each runs a bounded number of times, and says how it died."""
    holds("poison", bed)


@postgres
def test_jobs_of_a_claim_whose_reply_was_lost_run_again(bed: Bed) -> None:
    """I-9: within 15 s, by the instance that lives."""
    holds("cut", bed)


@both
def test_a_frozen_worker_writes_nothing_when_it_wakes(bed: Bed) -> None:
    """I-5: and it knows within a second that its leases are lost."""
    holds("freeze", bed)


@both
def test_a_blocked_event_loop_costs_no_lease_and_is_named(bed: Bed) -> None:
    """I-11."""
    holds("block", bed)


@both
def test_sigterm_loses_nothing_and_burns_no_attempt(bed: Bed) -> None:
    """I-32: exit code 0 within the grace time + 5 s; a second signal does not wait."""
    holds("term", bed)


def test_workers_go_on_when_postgres_comes_back(
    own_postgres: Callable[..., PostgresServer], tmp_path: Path
) -> None:
    """Within 5 s and without a word too many; sessions that are ended one by one cost nothing either."""
    server = own_postgres(durable=True)
    migrate(server.dsn())
    with Bed(server.dsn(), tmp_path, server=server) as bed:
        holds("restart", bed)


@both
def test_bad_rows_end_with_a_code_and_hold_up_nobody(bed: Bed) -> None:
    """I-16, I-17."""
    holds("bad", bed)


@long
@both
def test_pipelines_go_on_where_killed_workers_left_them(bed: Bed) -> None:
    """I-20: each phase's output once, phases in order."""
    holds("pipeline", bed)


@long
@both
def test_chunks_go_on_at_the_checkpoint_of_a_killed_worker(bed: Bed) -> None:
    """I-21, I-22: each chunk's effect once, and progress never falls."""
    holds("chunks", bed)


@long
@both
def test_no_job_has_an_effect_after_it_was_cancelled(bed: Bed) -> None:
    """I-23: at random moments of the jobs' lives."""
    holds("cancel", bed)


@both
def test_every_due_time_makes_one_job_while_workers_are_killed(bed: Bed) -> None:
    """I-27: fifty schedules of every second, none doubled and none missing."""
    holds("cron", bed)


@both
def test_processes_that_take_too_much_end_alone(bed: Bed) -> None:
    """I-12: time and memory."""
    holds("children", bed)
