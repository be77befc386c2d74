"""The reader of .sql files, and the promise that both dialects speak the same verbs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from windlass.store.schema import statements
from windlass.store.schema.statements import Statement, Verb, compose, load, sources, spelled
from windlass.store.sqlite.migrate import migrate_sqlite

# Verbs of one dialect only, and why the other has none of that name.
ONLY_POSTGRES = {
    "step": "one statement records and claims; SQLite has no data-modifying CTEs, see its verbs below",
    "record.pipeline": "one statement for ends of phases; SQLite writes them by the verbs of all other ends, in the same transaction",
    "enqueue.copy": "COPY for large enqueues; SQLite's one statement is as fast",
    "enqueue.copy_at": "likewise",
    "enqueue.copied": "likewise",
    "notify": "notifications; a SQLite file is watched through data_version",
    "wait": "says who wants notifications",
    "ends.notify": "notifications, as above",
}
ONLY_SQLITE = {
    "record.plain": "the recording half of step …",
    "record.plain_gone": "…",
    "record.plain_finished": "…",
    "record.plain_counted": "…",
    "claim.ready": "a read before the write lock is taken, so that an idle instance never writes",
    "claim.token": "the claiming half of step …",
    "claim": "…",
    "claim.none": "…",
    "claim.count": "…",
    "claim.emptied": "… and the claim rows it removes",
    "promote.due": "likewise",
    "fold.due": "likewise",
    "link.due": "likewise",
    "fire.due": "likewise",
}
UNREAD = {
    "enqueue",
    "enqueue.one",
    "settle.promote",
    "settle.leave",
    "free.later",
}  # on PostgreSQL their answer is who was notified
UNREAD |= {"enqueue.lock", "record.tidy"}  # and here that the lock is held, and nothing
UNREAD |= {
    "turn.take",
    "token.put",
    "request_key.take",
}  # whose row of NULLs, as it is tried here, SQLite refuses


def test_a_verb_has_a_promise_and_statements_in_order() -> None:
    verbs = compose(
        [
            """-- What stands above the first name belongs to no verb.

-- name: turn
-- Turns it,
-- twice.
UPDATE t
SET n = :n -- a comment; with a semicolon
WHERE id = :id;
SELECT n;

-- name: look.twice
SELECT 1;
"""
        ]
    )
    assert list(verbs) == ["turn", "look.twice"]
    turn = verbs["turn"]
    assert turn.promise == "Turns it, twice."
    assert [statement.text.split()[0] for statement in turn.statements] == ["UPDATE", "SELECT"]
    assert [statement.names for statement in turn.statements] == [{"n", "id"}, set()]
    assert verbs["look.twice"] == Verb("look.twice", "", (Statement("SELECT 1", frozenset()),))


def test_comments_reach_no_server() -> None:
    (statement,) = compose(["-- name: x\nSELECT 1 -- :secret, 'quoted'\nFROM t;\n"])["x"].statements
    assert "--" not in statement.text and statement.names == frozenset()


def test_an_argument_of_a_fragment_may_have_brackets_commas_and_fragments() -> None:
    source = """-- fragment: now
f(1, 2)

-- fragment: later(column, time)
{column} > {time}

-- name: x
SELECT 1
WHERE {{later(t.a, {{now}})}}
    AND {{later(t.b, g((3), 4) + 5)}};
"""
    (statement,) = compose([source])["x"].statements
    assert statement.text == "SELECT 1\nWHERE t.a > f(1, 2)\n    AND t.b > g((3), 4) + 5"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-- name: x\nSELECT 1;\n-- name: x\nSELECT 2;\n", "verb x stands twice"),
        ("-- fragment: now\na\n-- fragment: now\nb\n", "fragment now stands twice"),
        ("-- slot: more\n-- column: more.a\n1\n-- column: more.a\n2\n", r"column more\.a stands twice"),
        ("-- column: more.a\n1\n", "declares the slot more"),
        ("-- name: x\nSELECT {{nwo}};\n", "no file defines the fragment nwo"),
        ("-- name: x\nSELECT 1{{mroe.names}};\n", r"no file declares the slot mroe\.names"),
        ("-- slot: more\n-- name: x\nSELECT 1{{more.nmaes}};\n", r"no file declares the slot more\.nmaes"),
        ("-- fragment: f(a)\n{a}\n-- name: x\nSELECT {{f(1, 2)}};\n", r"\['a'\] is used with \['1', '2'\]"),
    ],
)
def test_names_that_stand_twice_or_nowhere_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compose([text])


def test_a_fragment_without_a_text_is_a_slot_for_many() -> None:
    source = (
        "-- fragment: more\n-- fragment: more\n, a\n-- fragment: more\n, b\n-- name: x\nSELECT 1{{more}};\n"
    )
    assert compose([source])["x"].statements[0].text.split() == ["SELECT", "1", ",", "a", ",", "b"]


def test_a_name_for_both_dialects_and_for_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sources("sqlite") | {"windlass.store:sql/sqlite/more.sql": "-- name: checkpoint.get\nSELECT 1;\n"}
    monkeypatch.setattr(statements, "sources", lambda dialect: found)
    load.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"verb checkpoint\.get stands twice"):
            load("sqlite")
    finally:
        load.cache_clear()


def test_a_text_for_both_dialects_is_spelled_for_each() -> None:
    text = """-- name: x
UPDATE windlass.job AS j
SET flags = g.flags, args = g.args
FROM {{given(:rows, g, id uuid, flags smallint,
    args jsonb
)}}
WHERE j.id = g.id::uuid
    AND EXISTS (SELECT 1 FROM windlass.claim AS c WHERE c.at < :at::double precision OFFSET 0)
    AND j.tokens = :tokens::bigint[];
SELECT j.id
FROM windlass.job AS j
ORDER BY j.id
FOR NO KEY UPDATE OF j SKIP LOCKED;
"""
    postgres, sqlite = spelled(text, "postgres"), spelled(text, "sqlite")
    assert "FROM json_to_recordset(:rows::json) AS g (id uuid, flags smallint,\n    args jsonb)\n" in postgres
    assert postgres.split("json_to_recordset")[0] == text.split("{{given")[0]
    assert postgres.split("args jsonb)")[1] == text.split("jsonb\n)}}")[1]
    assert (
        sqlite
        == """-- name: x
UPDATE windlass_job AS j
SET flags = g.flags, args = g.args
FROM (SELECT e.value ->> '$.id' AS id, e.value ->> '$.flags' AS flags, NULLIF(e.value -> '$.args', 'null') AS args \
FROM json_each(:rows) AS e) AS g
WHERE j.id = g.id
    AND EXISTS (SELECT 1 FROM windlass_claim AS c WHERE c.at < :at)
    AND j.tokens = :tokens;
SELECT j.id
FROM windlass_job AS j
ORDER BY j.id;
"""
    )


@pytest.mark.parametrize(
    ("text", "names", "pyformat"),
    [
        ("SELECT :a::text", {"a"}, "SELECT %(a)s::text"),
        ("SELECT ARRAY[:a, :a]", {"a"}, "SELECT ARRAY[%(a)s, %(a)s]"),
        ("SELECT n % 2, '%' WHERE id = :id_of", {"id_of"}, "SELECT n %% 2, '%%' WHERE id = %(id_of)s"),
        ("SELECT t.x::bigint[2:3]", set(), "SELECT t.x::bigint[2:3]"),
    ],
)
def test_parameters_are_told_from_casts(text: str, names: set[str], pyformat: str) -> None:
    (statement,) = compose([f"-- name: x\n{text};\n"])["x"].statements
    assert statement.names == names and statement.pyformat() == pyformat


def test_both_dialects_have_the_same_verbs() -> None:
    postgres, sqlite = load("postgres"), load("sqlite")
    assert set(postgres) - set(sqlite) == set(ONLY_POSTGRES)
    assert set(sqlite) - set(postgres) == set(ONLY_SQLITE)


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_every_verb_says_what_it_promises(dialect: str) -> None:
    assert [verb.name for verb in load(dialect).values() if not verb.promise or not verb.statements] == []


def test_both_dialects_take_the_same_parameters() -> None:
    """``now`` apart (SQLite has no clock of its own) and what only one of them needs."""
    extra = {
        "enqueue.one": {"notify"},  # every commit is seen on SQLite
        "promote": {"mark"},  # low-water marks
        "ready.phases": {"lanes", "marks"},  # likewise
        "prune.delete": {"oldest", "newest"},  # history partitions
        "prune.again": {"oldest", "newest"},  # likewise
        "parents.read": {"oldest", "newest"},  # likewise
        "rule.ended": {"since"},  # likewise
        "settle.lock": {"counted", "doomed", "reasons"},  # SQLite has one writer and no locks
        "enqueue.lock": {"ids"},
        "fence": {"milliseconds"},  # a time-out there, the write lock here
        "admit": {"limit"},  # one at a time
    }
    before = {"completed_before", "failed_before", "cancelled_before"}
    extra_sqlite = {"prune.again": before}  # the page is read before the one write lock is taken
    sqlite = load("sqlite")
    for name, verb in load("postgres").items():
        if name in sqlite:
            ours, theirs = (_names(one) - {"now"} for one in (verb, sqlite[name]))
            assert ours - extra.get(name, set()) == theirs - extra_sqlite.get(name, set()), name


def test_both_dialects_answer_the_same_columns(postgres_dsn: str, tmp_path: Path) -> None:
    """As many, and under the same names wherever both give one."""
    migrate_sqlite(f"sqlite:///{tmp_path / 'x.db'}")
    with psycopg.connect(postgres_dsn, autocommit=True) as pg:
        lite = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        try:
            for name, verb in load("postgres").items():
                if name in ONLY_POSTGRES or name in UNREAD or name == "fence":
                    continue
                theirs = _sqlite_columns(lite, load("sqlite")[name])
                ours = _postgres_columns(pg, verb)
                if theirs is None or ours is None:
                    assert theirs == ours, name
                    continue
                assert len(ours) == len(theirs), name
                named = [
                    (a, b) for a, b in zip(ours, theirs, strict=True) if _is_given(a) and b.isidentifier()
                ]
                assert [a for a, _ in named] == [b for _, b in named], name
        finally:
            lite.close()


def _names(verb: Verb) -> set[str]:
    return {name for statement in verb.statements for name in statement.names}


def _postgres_columns(connection: psycopg.Connection, verb: Verb) -> list[str] | None:
    columns = None
    for statement in verb.statements:
        text = statement.pyformat()
        for number, name in enumerate(sorted(statement.names), 1):
            text = text.replace(f"%({name})s", f"${number}")
        pgconn = connection.pgconn
        prepared = pgconn.prepare(b"", text.replace("%%", "%").encode())
        assert prepared.status == psycopg.pq.ExecStatus.COMMAND_OK, (verb.name, prepared.error_message)
        described = pgconn.describe_prepared(b"")
        if described.nfields:
            columns = [(described.fname(n) or b"").decode() for n in range(described.nfields)]
    return columns


def _sqlite_columns(connection: sqlite3.Connection, verb: Verb) -> list[str] | None:
    columns = None
    for statement in verb.statements:
        connection.execute("BEGIN")
        try:
            values = {**dict.fromkeys(statement.names), "now": 0, "limit": 0}
            cursor = connection.execute(statement.text, values)
        except sqlite3.IntegrityError:
            continue  # an INSERT of nothing but NULLs; such statements answer no rows
        finally:
            connection.execute("ROLLBACK")
        if cursor.description is not None:
            columns = [column[0] for column in cursor.description]
    return columns


def _is_given(name: str) -> bool:
    """Whether a column's name was given by us and not made up by PostgreSQL."""
    return name not in ("?column?", "count", "sum", "min", "max", "text", "pg_notify")
