"""On SQLite no verb reads a whole table of jobs, except those that must; EXPLAIN QUERY PLAN is asked about all of them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.features import open_store
from windlass.store.schema.statements import load

pytestmark = pytest.mark.timing

BIG = {"windlass_job", "windlass_job_later", "windlass_job_done"}

# (verb, table): why it may read the table, or an index of it, from end to end.
ALLOWED = {
    ("link.due", "windlass_job_later"): "looks at the first entry of the partial index of unlinked jobs",
    ("agenda", "windlass_job_later"): "likewise",
    ("fence", "windlass_job"): "WHERE FALSE: it takes the write lock and reads nothing",
    (
        "unclaim",
        "windlass_job",
    ): "a stopping instance, or a claim whose reply was lost: rare, and token has no index",
    (
        "search.held",
        "windlass_job",
    ): "at most 200,000 rows, from the end where processing jobs are; stops at the number of them that is known",
    ("recover.sweep", "windlass_job"): "read once, and only when a dead instance left a claim row behind",
}
# An index SQLite makes for one statement means reading the table once.
ALLOWED_AUTOMATIC = {("recover.pick", "windlass_job"): "made only when an instance died; token has no index"}


class Nothing(dict[str, Any]):
    """Every parameter is NULL; plans do not depend on values."""

    def __missing__(self, _name: str) -> None:
        return None


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "plans.db"
    open_store(f"sqlite:///{path}").close()
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


def tables_of(text: str) -> dict[str, str]:
    """Which table each name in a statement's plan stands for."""
    found = {table: table for table in BIG}
    for table, alias in re.findall(r"\b(windlass_\w+)\s+AS\s+(\w+)", text):
        assert found.setdefault(alias, table) == table, (
            f"{alias} names two tables; the plan can not tell them apart"
        )
    return found


def whole_reads(connection: sqlite3.Connection, verb: str) -> Iterator[tuple[str, str]]:
    """(how, table) for each table of jobs that a verb reads from end to end."""
    for statement in load("sqlite")[verb].statements:
        names = tables_of(statement.text)
        for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", Nothing()):
            match = re.match(r"(SCAN|SEARCH) (\S+)", detail)
            if match and names.get(match[2]) in BIG:
                if match[1] == "SCAN":
                    yield "SCAN", names[match[2]]
                elif "AUTOMATIC" in detail:
                    yield "AUTOMATIC", names[match[2]]


def test_no_verb_reads_a_whole_table_of_jobs(connection: sqlite3.Connection) -> None:
    """Every verb, every statement: what is read from end to end is exactly what the two lists above allow."""
    scans: set[tuple[str, str]] = set()
    automatic: set[tuple[str, str]] = set()
    for verb in load("sqlite"):
        for how, table in whole_reads(connection, verb):
            (scans if how == "SCAN" else automatic).add((verb, table))
    assert scans == ALLOWED.keys()
    assert automatic == ALLOWED_AUTOMATIC.keys()


def test_a_view_that_hides_a_scan_is_seen(connection: sqlite3.Connection) -> None:
    """The test above can fail: SQLite reads all of history for an id list through the view, and says so."""
    text = "SELECT j.id FROM windlass_jobs AS j WHERE j.id IN (SELECT g.value FROM json_each(:ids) AS g)"
    details = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", Nothing())]
    assert {detail for detail in details if detail.startswith("SCAN windlass_")} >= {
        f"SCAN {table}" for table in BIG
    }


@pytest.mark.parametrize(
    ("verb", "index"),
    [
        ("claim", "windlass_job_ready"),
        ("claim.ready", "windlass_job_ready"),
        ("ready.phases", "windlass_job_ready"),
        ("oldest", "windlass_job_ready"),
        ("promote", "windlass_job_later_due"),
        ("promote.due", "windlass_job_later_due"),
        ("cancels", "windlass_job_stopping"),
        ("fire.due", "windlass_schedule_due"),
        ("fire.pick", "windlass_schedule_due"),
        ("fire.next", "windlass_schedule_due"),
        ("agenda", "windlass_schedule_due"),
        ("expiry.due", "windlass_expiry_due"),
        ("agenda", "windlass_expiry_due"),
        ("list.ended_badly", "windlass_job_done_ended_badly"),
        ("search.scan", "windlass_job_done_ended_badly"),
        ("search.kind", "windlass_job_done_kind"),
        ("search.keyed", "windlass_job_done_key"),
        ("search.queued", "windlass_job_ready"),
        ("principal.of_subject", "windlass_principal_of_subject"),
        ("principal.of_tenant", "windlass_principal_of_tenant"),
        ("parents.newest", "windlass_job_dep_of_child"),
        ("parents.page", "windlass_job_dep_of_child"),
        ("parents.count", "windlass_job_dep_of_child"),
    ],
)
def test_a_verb_uses_the_index_made_for_it(connection: sqlite3.Connection, verb: str, index: str) -> None:
    """Each index serves the verb it was made for."""
    details = [
        row[-1]
        for statement in load("sqlite")[verb].statements
        for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", Nothing())
    ]
    assert any(re.search(rf"\b{index}\b", detail) for detail in details), details


@pytest.mark.parametrize("verb", ["principal.of_subject", "principal.of_tenant", "parents.newest"])
def test_pages_of_ids_are_not_sorted(connection: sqlite3.Connection, verb: str) -> None:
    """A page is the first entries of its index, however many follow."""
    (statement,) = load("sqlite")[verb].statements
    details = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", Nothing())]
    assert not any("TEMP B-TREE" in detail for detail in details), details


def test_the_claim_does_not_sort(connection: sqlite3.Connection) -> None:
    """The order of service is the index's order: no temporary tree over the whole queue."""
    (statement,) = load("sqlite")["claim"].statements
    details = [row[-1] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", Nothing())]
    assert not any("TEMP B-TREE" in detail for detail in details), details


def test_the_file_is_where_the_plans_are_made(tmp_path: Path) -> None:
    """The store never runs ANALYZE, so its plans do not depend on what the tables hold."""
    path = tmp_path / "fresh.db"
    with open_store(f"sqlite:///{path}") as store:
        store.upkeep.maintain()
    with sqlite3.connect(path) as connection:
        assert (
            connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'").fetchone() is None
        )
    connection.close()
