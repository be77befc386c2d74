"""The script that deletes guards: that it finds them all, that tests notice, and that it says so when none does.

The whole run is ``./dev mutate-sql`` (some minutes); here it tries a handful of mutants against one file of tests.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutate_sql import arguments
from tests.sql_guards import DIALECTS, MIGRATION, find, find_in
from tests.waiting import PATIENCE
from windlass.store.schema.statements import is_for_both, sources

pytestmark = pytest.mark.timing

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests" / "mutate_sql.py"

# At least so many guards each; a verb that loses one, or a finder that overlooks one, is noticed here.
LEAST = {
    "postgres": {
        "step": 19,
        "record.pipeline": 14,
        "record.finish": 2,
        "record.retry": 3,
        "record.advance": 4,
        "record.release": 4,
        "start": 2,
    }
    | {
        "checkpoint": 3,
        "output.put": 2,
        "recover.pick": 10,
        "recover.sweep": 10,
        "promote": 6,
        "prune.page": 13,
        "kept": 6,
        "needed": 4,
        "is_readable": 3,
        "leads_to": 2,
        "is_late": 3,
        "is_recovery_due": 9,
        "is_paused": 3,
        "lasts": 2,
        "is_alive": 3,
        "is_empty": 5,
        "is_listed": 9,
        "notified": 2,
    },
    "sqlite": {
        "claim": 4,
        "claim.token": 2,
        "record.plain": 2,
        "record.plain_gone": 2,
        "record.plain_finished": 2,
        "record.plain_counted": 2,
        "record.finish": 4,
        "record.retry": 6,
        "start": 2,
    }
    | {
        "checkpoint": 5,
        "output.put": 4,
        "recover.pick": 2,
        "recover.sweep": 6,
        "promote": 9,
        "promote_page": 2,
        "prune.page": 3,
        "prune.again": 3,
        "is_past": 10,
        "kept": 6,
        "is_late": 3,
        "is_recovery_due": 9,
        "is_paused": 3,
        "lasts": 2,
        "is_alive": 3,
        "is_listed": 9,
    },
}


def texts(source: str) -> list[tuple[str, str, str]]:
    return [(" ".join(m.text.split()), m.put, m.kind) for m in find_in(source, "postgres", "postgres/x.sql")]


def test_every_conjunct_is_a_guard() -> None:
    source = """-- name: x
-- A promise; WHERE nothing counts.
SELECT 'WHERE a AND b', count(*) FILTER (WHERE t.state = 'x')
FROM t
JOIN u ON u.id = t.id AND u.n = 1
WHERE t.a = :a -- AND so on
    AND t.b BETWEEN :b AND :c
    AND NOT EXISTS (
        SELECT FROM v
        WHERE v.id = t.id
    )
    AND CASE WHEN t.x AND t.y THEN TRUE ELSE FALSE END
GROUP BY t.a;
"""
    assert texts(source) == [
        ("t.a = :a", "TRUE", "guard"),
        ("t.b BETWEEN :b AND :c", "TRUE", "guard"),
        ("NOT EXISTS ( SELECT FROM v WHERE v.id = t.id )", "TRUE", "guard"),
        ("v.id = t.id", "TRUE", "guard"),
        ("CASE WHEN t.x AND t.y THEN TRUE ELSE FALSE END", "TRUE", "guard"),
    ]


def test_an_or_is_one_guard_and_each_of_its_branches_another() -> None:
    source = """-- name: x
DELETE FROM t
WHERE (a OR (b AND c))
    AND d
RETURNING id;
UPDATE t SET n = 1 WHERE e OR f;
"""
    assert texts(source) == [
        ("(a OR (b AND c))", "TRUE", "guard"),
        ("a", "FALSE", "guard branch"),
        ("(b AND c)", "FALSE", "guard branch"),
        ("b", "TRUE", "guard"),
        ("c", "TRUE", "guard"),
        ("d", "TRUE", "guard"),
        ("e", "FALSE", "guard branch"),
        ("e OR f", "TRUE", "guard"),
        ("f", "FALSE", "guard branch"),
    ]


def test_a_guard_ends_with_its_fragment() -> None:
    source = """-- fragment: x(a)
-- Rows.
SELECT n
FROM t
WHERE t.a = {a}
    AND t.b < now()

-- fragment: y(a)
-- An expression.
{a} + 1
"""
    assert texts(source) == [("t.a = {a}", "TRUE", "guard"), ("t.b < now()", "TRUE", "guard")]


def test_a_slot_behind_a_condition_is_a_guard_and_so_is_each_text_that_fills_it() -> None:
    source = """-- name: x
SELECT t.id FROM t
WHERE (t.a {{is_not}} :a OR t.b)
    AND t.c = {{now}}
    {{kept(t)}}
ORDER BY t.id;
-- fragment: kept(row)
-- A row stays.
-- And so on.
AND NOT EXISTS (SELECT FROM u WHERE u.id = {row}.id)
-- fragment: needed(row)
-- A row is needed.
OR {row}.n
"""
    assert texts(source) == [
        ("(t.a {{is_not}} :a OR t.b)", "TRUE", "guard"),
        ("t.a {{is_not}} :a", "FALSE", "guard branch"),
        ("t.b", "FALSE", "guard branch"),
        ("t.c = {{now}}", "TRUE", "guard"),
        ("{{kept(t)}}", "", "guard"),
        ("NOT EXISTS (SELECT FROM u WHERE u.id = {row}.id)", "TRUE", "guard"),
        ("u.id = {row}.id", "TRUE", "guard"),
        ("{row}.n", "FALSE", "guard branch"),
    ]


def test_what_a_later_migration_makes_anew_is_no_guard() -> None:
    source = "CREATE TABLE t (n integer, CONSTRAINT t_n CHECK (n > 0), CONSTRAINT t_m CHECK (n < 9));\n"
    source += "CREATE TRIGGER t_final BEFORE UPDATE ON t\nBEGIN\n    SELECT 1;\nEND;\n"
    later = source.replace("CONSTRAINT t_m CHECK (n < 9)", "m integer")
    first, second = (find_in(source, "sqlite", "sqlite/migrations/0001_x.sql", text) for text in ("", later))
    assert [mutant.kind for mutant in first] == ["check", "check", "trigger"]
    assert [mutant.text for mutant in second] == ["n < 9"]


def test_locks_limits_and_the_order_of_claims_are_guards_too() -> None:
    source = """-- name: claim.pick
SELECT t.id, row_number() OVER (ORDER BY t.n)
FROM t
WHERE t.n > 0
ORDER BY t.n, t.id
LIMIT :limit
FOR NO KEY UPDATE OF t SKIP LOCKED;
-- name: other
SELECT 1 FROM t ORDER BY n LIMIT 1 FOR UPDATE;
"""
    assert texts(source) == [
        ("ORDER BY t.n", "", "order"),
        ("t.n > 0", "TRUE", "guard"),
        ("ORDER BY t.n, t.id", "", "order"),
        ("LIMIT :limit", "", "limit"),
        ("FOR NO KEY UPDATE OF t SKIP LOCKED", "", "lock"),
        ("SKIP LOCKED", "", "skip locked"),
        ("FOR UPDATE", "", "lock"),
    ]


def test_a_belt_is_known_by_its_line() -> None:
    source = (
        "-- name: x\nSELECT 1 FROM t\nWHERE a = 1\n    AND b = 2 -- belt: for the planner\n    AND c = 3;\n"
    )
    found = find_in(source, "postgres", "postgres/x.sql")
    assert [(mutant.text, mutant.belt) for mutant in found] == [
        ("a = 1", None),
        ("b = 2", "for the planner"),
        ("c = 3", None),
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_files_guards_are_found(dialect: str) -> None:
    mutants = find(dialect)
    guards = Counter(mutant.verb for mutant in mutants if mutant.kind.startswith("guard"))
    assert {verb: guards[verb] for verb, n in LEAST[dialect].items() if guards[verb] < n} == {}
    for text in sources(dialect).values():
        pieces = re.split(r"^-- (?:name|fragment|slot|column): ([\w.]+)", text, flags=re.MULTILINE)
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
            wheres = re.sub(r"--[^\n]*", "", body).upper().replace("(WHERE", "").count("WHERE")
            assert guards[name] >= wheres, name
    migration = Counter(mutant.kind for mutant in mutants if mutant.verb == MIGRATION)
    triggers = {"sqlite": 5, "postgres": 2}[dialect]
    assert migration["check"] >= 30 and migration["trigger"] == triggers and migration["token order"] >= 1
    kinds = Counter(mutant.kind for mutant in mutants)
    assert kinds["limit"] >= 12 and kinds["order"] >= 3
    assert dialect == "sqlite" or (kinds["lock"] >= 18 and kinds["skip locked"] >= 10)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_mutant_differs_from_its_file_in_one_place_of_one_verb(dialect: str) -> None:
    for mutant in [*find(dialect)][::50]:  # each composes every verb of a dialect anew
        if mutant.verb == MIGRATION or mutant.text == mutant.put:
            continue
        different = [*mutant.changed()]
        assert different == [mutant.verb] or mutant.is_fragment, mutant.describe()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_belt_gives_its_reason(dialect: str) -> None:
    mutants = find(dialect)
    belts = [mutant for mutant in mutants if mutant.belt]
    assert all(len(mutant.belt or "") > 10 for mutant in belts)
    guarding = [
        mutant for mutant in belts if mutant.text != mutant.put
    ]  # WHERE TRUE, for the grammar, guards nothing
    assert len(guarding) <= 0.05 * len(mutants), "each is a guard that nobody can test: keep them few"


@pytest.mark.parametrize("dialect", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def test_tests_notice_a_missing_fence_and_nothing_notices_nothing(dialect: str, tmp_path: Path) -> None:
    """Both guards of `start`, two CHECKs, and a control that changes nothing: all but the control are killed."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-P", str(SCRIPT), "--dialect", dialect, "--jobs", "1", "--json", str(report)]
    for name in ("a_batch_writes_what_is_held", "a_checkpoint_is_written"):
        command += [
            "--tests",
            f"tests/conformance/test_guards_fence.py::test_{name}_under_the_token_it_names",
        ]
    command += ["--verb", "start", "--verb", "checkpoint.flag", "--control"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )
    assert done.returncode == 1, done.stderr[-2000:]
    results = json.loads(report.read_text())["results"]
    survivors = [item["kind"] for item in results if item["killer"] is None]
    assert survivors == ["control"], done.stdout
    assert len(results) == 5 and f"SURVIVES {results[-1]['tests']} tests" in done.stdout


def test_the_list_can_be_read_without_a_server() -> None:
    command = [sys.executable, "-P", str(SCRIPT), "--list", "--sample", "5", "--seed", "3"]
    first, second = (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
        for _ in range(2)
    )
    assert first == second and first.count("→") == 5


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_guard_of_a_text_for_both_dialects_is_one_of_each(dialect: str) -> None:
    """Row locks are guards on PostgreSQL alone: SQLite's text has none."""
    of_both = [mutant for mutant in find(dialect) if is_for_both(mutant.file) and mutant.belt is None]
    assert {"retry.edges", "checkpoint.flag", "is_readable"} <= {mutant.verb for mutant in of_both}
    assert ("lock" in {mutant.kind for mutant in of_both}) is (dialect == "postgres")
    for mutant in of_both[::25]:  # each composes every verb of a dialect anew
        changed = mutant.changed()
        assert mutant.is_fragment or list(changed) == [mutant.verb], mutant.describe()


def test_a_mutant_is_not_made_of_a_file_that_changed() -> None:
    stale = dataclasses.replace(find("sqlite")[0], text="?")
    with pytest.raises(ValueError, match="changed"):
        stale.applied()


@pytest.mark.parametrize("words", [["--tests", "a", "b"], ["--tests", "a", "--tests", "b"]])
def test_several_files_of_tests_can_be_named(words: list[str]) -> None:
    assert arguments(words).tests == ["a", "b"]
