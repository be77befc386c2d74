"""Next ticks of single expressions, and expressions and zones that are refused."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.counting import steps
from windlass.errors import ConfigError
from windlass.schedules import cron

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


# ------------------------------------------------------------------------------------------------- cases to read aloud


def ticks(expression: str, zone: str, after: str, count: int) -> list[str]:
    """The next ticks as the wall clock shows them, with the offset."""
    parsed, at, found = cron.parse(expression, zone), datetime.fromisoformat(after), []
    for _ in range(count):
        at = parsed.next_after(at)
        assert at.tzinfo is UTC
        found.append(at.astimezone(ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


def test_a_fixed_time_in_the_gap_fires_once_after_it() -> None:
    assert ticks("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00+00:00", 2) == [
        "2027-03-28T03:00+02:00",
        "2027-03-29T02:30+02:00",
    ]
    assert ticks("0,30 2,3 * * *", "Europe/Berlin", "2027-03-27T12:00+00:00", 2) == [
        "2027-03-28T03:00+02:00",
        "2027-03-28T03:30+02:00",
    ]


def test_a_fixed_time_that_comes_twice_fires_the_first_time() -> None:
    for after in ("2027-10-30T12:00+00:00", "2027-10-31T00:29:59+00:00"):
        assert ticks("30 2 * * *", "Europe/Berlin", after, 2) == [
            "2027-10-31T02:30+02:00",
            "2027-11-01T02:30+01:00",
        ]
    assert ticks("30 2 * * *", "Europe/Berlin", "2027-10-31T01:15+00:00", 1) == ["2027-11-01T02:30+01:00"], (
        "asked in the second pass: it has fired"
    )


def test_an_interval_follows_real_time() -> None:
    assert ticks("*/30 * * * *", "Europe/Berlin", "2027-10-31T00:15+00:00", 5) == [
        "2027-10-31T02:30+02:00",
        "2027-10-31T02:00+01:00",
        "2027-10-31T02:30+01:00",
        "2027-10-31T03:00+01:00",
        "2027-10-31T03:30+01:00",
    ]
    assert ticks("*/30 * * * *", "Europe/Berlin", "2027-03-28T00:45+00:00", 2) == [
        "2027-03-28T03:00+02:00",
        "2027-03-28T03:30+02:00",
    ]


def test_a_zone_that_changes_by_half_an_hour_loses_nothing() -> None:
    """cronsim alone would begin at 02:30."""
    assert ticks("* 2 * * *", "Australia/Lord_Howe", "2027-04-03T14:50+00:00", 1) == [
        "2027-04-04T02:00+10:30"
    ]


def test_the_day_that_samoa_left_out() -> None:
    assert ticks("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00+00:00", 2) == [
        "2011-12-31T00:00+14:00",
        "2011-12-31T12:00+14:00",
    ]
    assert ticks("*/30 * * * 5", "Pacific/Apia", "2011-12-29T23:00+00:00", 1) == ["2012-01-06T00:00+14:00"]


def test_leap_days() -> None:
    assert ticks("0 6 29 2 *", "Europe/Berlin", "2026-01-01T00:00+00:00", 2) == [
        "2028-02-29T06:00+01:00",
        "2032-02-29T06:00+01:00",
    ]
    assert ticks("0 6 29 2 *", "UTC", "2096-03-01T00:00+00:00", 1) == ["2104-02-29T06:00+00:00"]


def test_seconds_are_a_sixth_field_in_front() -> None:
    parsed = cron.parse("*/20 * * * * *", "Europe/Berlin")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = [tick.second for tick, _ in zip(parsed.between(at, at + HOUR), range(4), strict=False)]
    assert found == [20, 40, 0, 20]
    every = cron.parse("* * * * * *")
    assert [every.next_after(at + n * timedelta(seconds=1)) for n in range(90)] == [
        at + (n + 1) * timedelta(seconds=1) for n in range(90)
    ]
    assert every.next_after(at + timedelta(microseconds=1)) == at + timedelta(seconds=1)


def test_a_fixed_time_with_seconds_is_a_fixed_time() -> None:
    assert ticks("0 30 2 * * *", "Europe/Berlin", "2027-10-30T12:00+00:00", 2) == [
        "2027-10-31T02:30+02:00",
        "2027-11-01T02:30+01:00",
    ]
    assert ticks("*/10 30 2 * * *", "Europe/Berlin", "2027-03-27T12:00+00:00", 2) == [
        "2027-03-28T03:00+02:00",
        "2027-03-29T02:30+02:00",
    ]


@pytest.mark.parametrize(
    ("alias", "first"),
    [
        ("@hourly", "2026-05-06T08:00+00:00"),
        ("@daily", "2026-05-07T00:00+00:00"),
        ("@midnight", "2026-05-07T00:00+00:00"),
        ("@weekly", "2026-05-10T00:00+00:00"),
        ("@monthly", "2026-06-01T00:00+00:00"),
        ("@yearly", "2027-01-01T00:00+00:00"),
        ("@Annually", "2027-01-01T00:00+00:00"),
    ],
)
def test_aliases(alias: str, first: str) -> None:
    assert ticks(alias, "UTC", "2026-05-06T07:08+00:00", 1) == [first]


def test_what_cron_writes_beside_numbers() -> None:
    after = "2026-05-06T07:08+00:00"  # a Wednesday
    assert ticks("0 9 * * MON-FRI", "UTC", after, 1) == ["2026-05-06T09:00+00:00"]
    assert ticks("0 9 1 jan *", "UTC", after, 1) == ["2027-01-01T09:00+00:00"]
    assert ticks("0 9 L * *", "UTC", after, 1) == ["2026-05-31T09:00+00:00"]
    assert ticks("0 9 LW * *", "UTC", after, 1) == ["2026-05-29T09:00+00:00"]
    assert ticks("0 9 * * 5L", "UTC", after, 1) == ["2026-05-29T09:00+00:00"]
    assert ticks("0 9 * * MON#2", "UTC", after, 1) == ["2026-05-11T09:00+00:00"]
    assert ticks("0 9 13 * FRI", "UTC", after, 3) == [
        "2026-05-08T09:00+00:00",
        "2026-05-13T09:00+00:00",
        "2026-05-15T09:00+00:00",
    ], "a day of the month or a weekday, whichever comes"


def test_one_spelling_of_an_expression() -> None:
    assert cron.parse("  0   6 * *  * ").text == "0 6 * * *"
    assert cron.parse(" @DAILY").text == "@daily"


# --------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "five fields"),
        ("* * * *", "number of fields"),
        ("* * * * * * *", "number of fields"),
        ("60 * * * *", "the minute cannot be read"),
        ("* 24 * * *", "the hour cannot be read"),
        ("* * 32 * *", "the day-of-month cannot be read"),
        ("* * * 13 *", "the month cannot be read"),
        ("* * * * 8", "the day-of-week cannot be read"),
        ("61 * * * * *", "the second cannot be read"),
        ("*/0 * * * *", "the minute cannot be read"),
        ("5-1 * * * *", "the minute cannot be read"),
        ("@dayly", "did you mean @daily"),
        ("@reboot", "@hourly"),
        ("@every 10s", "every=90 instead of an expression"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
        ("0 0 */31 * MON#5", "never fires"),
        ("1," * 200 + "1 * * * *", "five fields"),
        (None, "five fields"),
        (["0 6 * * *"], "five fields"),
    ],
)
def test_a_bad_expression_is_named(expression: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cron.parse(expression)
    assert caught.value.key == "expression" and words in caught.value.reason


def test_an_hour_that_is_always_in_the_gap_never_fires() -> None:
    """The last Sunday of March has no second hour in Berlin."""
    with pytest.raises(ConfigError, match="never fires in Europe/Berlin"):
        cron.parse("* 2 * 3 0L", "Europe/Berlin")
    assert ticks("* 2 * 3 0L", "UTC", "2026-01-01T00:00+00:00", 1) == ["2026-03-29T02:00+00:00"]


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Berlim", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("America/New York", "America/New_York"),
        ("utc", "UTC"),
        ("Nowhere/Land", None),
        ("", None),
        ("../../etc/passwd", None),
        ("/etc/localtime", None),
        ("localtime", None),
        ("Europe", None),
        ("Europe/Ber\0lin", None),
        (7, None),
        (None, None),
    ],
)
def test_an_unknown_zone_is_named_with_one_that_is_near(zone: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        cron.parse("* * * * *", zone)
    assert caught.value.key == "tz" and caught.value.value == zone and "Europe/Berlin" in caught.value.reason
    if hint:
        assert f"did you mean {hint}?" in caught.value.reason


def test_reading_and_the_next_tick_are_bounded() -> None:
    """Whatever the expression: a few milliseconds."""
    slow = (
        "0 0 30 2 *",
        "0 0 */31 * MON#5",
        "* 2 * 3 0L",
        "0 0 * 2 MON#5",
        "* * 29 2 */6",
        "*/59 * 29 2 */6",
        "0 0 29 2 *",
    )
    for expression in slow:
        cron._parse.cache_clear()

        def read_and_look(expression: str = expression) -> None:
            with suppress(ConfigError):
                cron.parse(expression, "Europe/Berlin").next_after(datetime(2026, 1, 1, tzinfo=UTC))

        assert steps(read_and_look) < 200_000, expression
