"""The tables of the example, and a generator of employees and timesheets that makes the same rows each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass_examples.running.database import connected, execute, execute_many

COUNTIES = ("Harju", "Tartu", "Võru", "Pärnu", "Saare", "Viljandi")
PERIODS = ("2026-09", "2026-10")
DAYS = 20
PAGE = 10_000
DEPARTMENTS = ("Roads", "Schools", "Health", "Archive")
NAMES = (
    "Mari Tamm",
    "Jaan Saar",
    "Liis Sepp",
    "Peeter Mägi",
    "Kadri Kask",
    "Rein Kukk",
    "Anu Rebane",
    "Tõnu Ilves",
)
NOTES = (
    "",
    "",
    "on site",
    "from home; late",
    'said "fine"',
    "=1+1",
    "two\nlines",
    "+372 555 0100",
    "@home",
    "-",
)
TABLES = (
    "CREATE TABLE IF NOT EXISTS employee (id INTEGER PRIMARY KEY, county TEXT, name TEXT, department TEXT)",
    ("CREATE TABLE IF NOT EXISTS timesheet (id INTEGER PRIMARY KEY, employee INTEGER, county TEXT, period TEXT, "
    "workday TEXT, minutes INTEGER, leave_minutes INTEGER, note TEXT)"),
    "CREATE INDEX IF NOT EXISTS timesheet_of_county ON timesheet (county, period, id)",
    # The place of an export: written in the commit of each chunk.
    "CREATE TABLE IF NOT EXISTS report_place (job TEXT PRIMARY KEY, after_id BIGINT, size BIGINT, total BIGINT)",
    # No unique key on purpose: a report that is written twice would be counted.
    ("CREATE TABLE IF NOT EXISTS report (job TEXT, kind TEXT, county TEXT, period TEXT, owner TEXT, size BIGINT, rows_total BIGINT, "
    "digest TEXT, made_at DOUBLE PRECISION)"),
)  # fmt: skip


def generate(url: str, rows: int) -> None:
    """Make the tables, and fill them with so many timesheets unless they have rows."""
    with connected(url) as connection:
        for table in TABLES:
            execute(connection, table)
        if execute(connection, "SELECT count(*) FROM timesheet").fetchone()[0]:
            return
        each = len(PERIODS) * DAYS
        people = (
            (n, _county(n), NAMES[n % len(NAMES)], DEPARTMENTS[n % len(DEPARTMENTS)])
            for n in range(rows // each + 1)
        )
        execute_many(connection, "INSERT INTO employee VALUES (?, ?, ?, ?)", people)
    for start in range(0, rows, PAGE):
        with connected(url) as connection:
            page = _timesheets(start, min(rows, start + PAGE))
            execute_many(connection, "INSERT INTO timesheet VALUES (?, ?, ?, ?, ?, ?, ?, ?)", page)


def _timesheets(first: int, end: int) -> Iterator[tuple[Any, ...]]:
    each = len(PERIODS) * DAYS
    for number in range(first, end):
        employee, place = divmod(number, each)
        period, day = PERIODS[place // DAYS], place % DAYS + 1
        leave = 480 if number % 7 == 3 else 0
        minutes = 0 if leave else 360 + number * 7919 % 180
        yield (
            number + 1, employee, _county(employee), period, f"{period}-{day:02}", minutes, leave, NOTES[number % len(NOTES)]
        )  # fmt: skip


def _county(employee: int) -> str:
    return COUNTIES[employee % len(COUNTIES)]


_FROM = " FROM timesheet t JOIN employee e ON e.id = t.employee WHERE t.county = ? AND t.period = ?"
SELECTS = {
    "hours": ("SELECT t.id, e.name, e.department, t.workday, t.minutes, t.note" + _FROM, " AND t.minutes > 0"),
    "leave": ("SELECT t.id, e.name, e.department, t.workday, t.leave_minutes, t.note" + _FROM, " AND t.leave_minutes > 0"),
}  # fmt: skip


def count(connection: Any, kind: str, county: str, period: str) -> int:
    """How many rows a report has."""
    where = SELECTS[kind][1]
    sql = f"SELECT count(*) FROM timesheet t WHERE t.county = ? AND t.period = ?{where}"  # noqa: S608  a constant
    return int(execute(connection, sql, (county, period)).fetchone()[0])


def rows_after(
    connection: Any, kind: str, county: str, period: str, after: int, limit: int
) -> list[tuple[Any, ...]]:
    """The next rows of a report; the first column is the id to go on after."""
    select, where = SELECTS[kind]
    sql = f"{select}{where} AND t.id > ? ORDER BY t.id LIMIT ?"
    found: list[tuple[Any, ...]] = execute(connection, sql, (county, period, after, limit)).fetchall()
    return found


def sums(connection: Any, county: str, period: str) -> list[tuple[Any, ...]]:
    """Department, people, minutes and minutes of leave."""
    found: list[tuple[Any, ...]] = execute(
        connection,
        "SELECT e.department, count(DISTINCT e.id), sum(t.minutes), sum(t.leave_minutes)"
        + _FROM
        + " GROUP BY e.department "
        "ORDER BY e.department",
        (county, period),
    ).fetchall()
    return found
