"""Log lines: one call, one line, with the job it belongs to, whatever is put in."""

from __future__ import annotations

import asyncio
import contextvars
import io
import json
import logging
import re
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.observe.lines import Terminal, a_job, app, written
from tests.waiting import PATIENCE
from windlass.errors import ConfigError
from windlass.observe import logs
from windlass.observe.current_job import current_job
from windlass.observe.redaction import Secrets
from windlass.observe.safe_text import LIMIT

ESC = "\x1b"
_PARTS = [
    "\n2026-01-01 ERROR forged", "\r\nforged", "\rforged", "\x0bforged", "\x0cforged", "\x1cforged", "\x1dforged", "\x1eforged",
    "\x85forged", "\u2028forged", "\u2029forged", f"{ESC}[31mred", f"{ESC}[2J{ESC}[H", f"{ESC}]0;title\x07", f"{ESC}]8;;x{ESC}\\",
    "\x9b31mred", "\x00", "\x07", "\x08\x08\x08forged", "\x7f", "\u202eforged", "\u2066forged", "\u200fforged", "\ufeff",
    '"}\n{"level":"info","event":"forged"}',
]  # fmt: skip
_SHAPES = ("{}", "before {} after", "%s {} %d", "{{{}}}")
PAYLOADS = [shape.format(part) for part in _PARTS for shape in _SHAPES]
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\u200f\ufeff]")


class Sulky:
    """An object that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def test_a_json_line_has_everything() -> None:
    with written() as lines:
        before = datetime.now(UTC)
        app.warning("charged %s", "order 7", extra={"order": 7, "when": datetime(2026, 1, 1, tzinfo=UTC)})
    line = lines.last
    assert list(line) == ["ts", "level", "logger", "event", "message", "fields"]
    assert (line["level"], line["logger"], line["event"], line["message"]) == (
        "warning",
        "shop",
        "log",
        "charged order 7",
    )
    assert line["fields"] == {"order": 7, "when": "2026-01-01 00:00:00+00:00"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
    at = datetime.fromisoformat(line["ts"])
    assert before - timedelta(milliseconds=1) <= at <= datetime.now(UTC)


def test_a_message_for_a_terminal_is_no_field() -> None:
    with written() as lines:
        app.info("listens", extra={"color_message": "\x1b[1mlistens\x1b[0m", "port": 80})
    assert lines.last["fields"] == {"port": 80}


def test_a_console_line_is_readable() -> None:
    with written("console") as lines:
        app.info("charged", extra={"order": 7, "note": "two words", "empty": "", "list": [1, "b"]})
        logging.getLogger("windlass.engine").error(
            "it broke", extra={"event": "job.failed", "job_id": "x", "kind": "welcome"}
        )
    first, second = lines.all
    assert re.fullmatch(
        r'\d\d:\d\d:\d\d\.\d{3} INFO  shop +charged order=7 note="two words" empty="" list=\[1, "b"\]', first
    )
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} ERROR job\.failed +welcome x  it broke", second)


@pytest.mark.parametrize("style", ["json", "console"])
def test_lines_of_a_handler_carry_its_job(style: str) -> None:
    """The handler's own lines, and those of libraries it calls, in threads and tasks of their own."""

    def handler() -> None:
        current_job.set(a_job())
        logging.getLogger("some.library").info("hello")

    with written(style, instance=lambda: "i-1") as lines:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(handler,))
        thread.start()
        thread.join()
        app.info("outside")
    inside, outside = lines.all
    if style == "console":
        assert "welcome 0190-a attempt 2/3  hello correlation_id=req-7" in inside
        assert "0190-a" not in outside
        return
    shown = json.loads(inside)
    expected = {
        "job_id": "0190-a", "kind": "welcome", "phase": "welcome", "attempt": 2, "max_attempts": 3,
        "correlation_id": "req-7", "processor": "welcome-processor-1", "instance": "i-1",
    }  # fmt: skip
    assert {name: shown[name] for name in expected} == expected
    assert "fields" not in shown
    assert set(json.loads(outside)) == {"ts", "level", "logger", "event", "message", "instance"}


def test_two_tasks_on_one_loop_keep_their_jobs_apart() -> None:
    async def handler(name: str, gate: asyncio.Barrier) -> None:
        job = a_job()
        job.processor.name = name
        current_job.set(job)
        await gate.wait()
        app.info(name)

    async def both() -> None:
        gate = asyncio.Barrier(2)
        await asyncio.gather(handler("p-1", gate), handler("p-2", gate))

    with written(level="info") as lines:
        asyncio.run(both())
    assert sorted((line["message"], line["processor"]) for line in lines.objects) == [
        ("p-1", "p-1"),
        ("p-2", "p-2"),
    ]


def test_fields_of_the_caller_win_over_the_running_job() -> None:
    with written() as lines:
        token = current_job.set(a_job())
        app.info("about another", extra={"job_id": "other"})
        current_job.reset(token)
    assert lines.last["job_id"] == "other"


def test_there_are_a_hundred_payloads() -> None:
    assert len(PAYLOADS) == 100


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_value_makes_a_second_line_or_reaches_the_terminal(style: str) -> None:
    """Log injection: as message, argument, field, name of a field, nested, in an exception, as event and as logger."""
    with written(style) as lines:
        logging.getLogger("windlass").setLevel(logging.CRITICAL)  # a thread of another test may still end
        for payload in PAYLOADS:
            before = len(lines.heads)
            app.info(payload)
            app.info("%s", payload)
            app.info("x", extra={"value": payload, "deep": {"list": [payload], payload: 1}})
            app.info("x", extra={payload: "value"})
            app.info(
                "x", extra={"event": payload, "job_id": payload, "kind": payload, "correlation_id": payload}
            )
            logging.getLogger(f"shop.{payload}").info("x")
            try:
                raise ValueError(payload)
            except ValueError:
                app.exception("it broke")
            assert len(lines.heads) == before + 7, repr(payload)
    for line in lines.all:
        assert not UNSAFE.search(line), repr(line)
    if style == "json":
        assert all(line["event"] in ("log", *PAYLOADS) for line in lines.objects)


def test_json_gives_the_original_back() -> None:
    with written() as lines:
        for payload in PAYLOADS:
            app.info("%s", payload, extra={"value": payload})
    assert [line["message"] for line in lines.objects] == PAYLOADS
    assert [line["fields"]["value"] for line in lines.objects] == PAYLOADS


def test_whole_tracebacks_stay_below_their_line() -> None:
    with written("console", tracebacks=True) as lines:
        try:
            raise ValueError("one\n12:00:00.000 INFO  forged")
        except ValueError:
            app.exception("it broke")
    first, *others = lines.all
    assert "it broke ValueError: one\\n12:00:00.000 INFO  forged" in first
    assert others and all(line.startswith("    | ") for line in others)


def test_json_has_the_error_and_its_traceback() -> None:
    with written() as lines:
        try:
            raise KeyError("county")
        except KeyError:
            app.exception("it broke")
    error = lines.last["error"]
    assert (error["type"], error["message"]) == ("KeyError", "'county'")
    assert "test_logs.py" in error["traceback"] and error["traceback"].endswith("KeyError: 'county'\n")


@pytest.mark.parametrize("style", ["json", "console"])
def test_nothing_raises(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    ours = logging.getLogger("windlass.test")  # past the handler of pytest, which does raise
    cycle: list[object] = []
    cycle.append(cycle)

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    with written(style) as lines:
        ours.info("%d apples", "many")
        ours.info("%s", Sulky())
        ours.info(Sulky())
        ours.info(
            "x",
            extra={
                "value": Sulky(),
                "cycle": cycle,
                "huge": 10**5000,
                "nan": float("nan"),
                "bytes": b"\xff\n",
            },
        )
        ours.info(
            "x",
            extra={
                "deep": {"a": {"b": {"c": {"d": {"e": Sulky()}}}}},
                "half": "\ud800",
                "error": "just text",
            },
        )
        try:
            raise BrokenError
        except BrokenError:
            ours.exception("it broke")
        ours.handle(logging.LogRecord("shop", 20, "", 0, "odd", None, (None, None, None)))
    assert len(lines.heads) == 7
    assert "<Sulky that cannot be shown: RuntimeError>" in lines.all[3]
    assert capsys.readouterr().err == ""


def test_long_values_are_cut_with_a_count() -> None:
    with written() as lines:
        app.info(
            "a" * 10_000,
            extra={
                "long": "b" * 1_000_000,
                "list": ["c" * 900] * 90,
                "many": dict.fromkeys(map(str, range(99))),
            },
        )
    line, text = lines.last, lines.all[-1]
    assert line["message"] == "a" * LIMIT + "… (7,952 more characters)"
    assert line["fields"]["long"].startswith("b" * LIMIT) and line["fields"]["long"].endswith(
        "… (997,952 more characters)"
    )
    assert line["fields"]["list"][-1] == "… 87 more"
    assert line["fields"]["many"]["…"] == "49 more"
    assert len(text) < 10_000


def test_a_long_traceback_keeps_its_end() -> None:
    def deep(n: int) -> None:
        if n == 0:
            raise ValueError("the end")
        (deep if n % 2 else lambda m: deep(m))(n - 1)

    with written() as lines:
        try:
            deep(200)
        except ValueError:
            app.exception("it broke")
    trace = lines.last["error"]["traceback"]
    assert len(trace) < 9000 and trace.startswith("(") and trace.endswith("ValueError: the end\n")


@pytest.mark.parametrize(
    ("stream", "is_json", "environment"),
    [
        (io.StringIO(), True, {}),
        (Terminal(), False, {}),
        (Terminal(), False, {"NO_COLOR": "1"}),
        (Terminal(), False, {"TERM": "dumb"}),
    ],
)
def test_auto_looks_at_the_stream(
    stream: io.StringIO, is_json: bool, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with written("auto", stream=stream) as lines:
        app.warning("hello")
    assert lines.text.startswith("{") is is_json
    assert (ESC in lines.text) is (not is_json and not environment)


def test_a_second_call_replaces_the_first_and_closing_puts_all_back() -> None:
    root, ours = logging.getLogger(), logging.getLogger("windlass")
    before = (root.level, ours.level, ours.propagate, list(root.handlers), list(ours.handlers))
    first, second = io.StringIO(), io.StringIO()
    logs.configure("debug", "json", first)
    made = logs.configure("error", "json", second)
    app.error("once")
    ours.error("once")
    app.info("not at this level")
    assert first.getvalue() == "" and second.getvalue().count("\n") == 2
    made.close()
    made.close()
    assert (root.level, ours.level, ours.propagate, list(root.handlers), list(ours.handlers)) == before


def test_a_child_process_logs_as_its_parent() -> None:
    assert logs.options_for_child() is None
    with logs.configure("warning", "json", Terminal(), secrets=Secrets(["hunter2"], names=["iban"])):
        told = json.dumps(logs.options_for_child())
    program = (
        "import json, logging, sys\n"
        "from windlass.observe import logs\n"
        "logs.adopt(json.loads(sys.argv[1]), lambda: 'i-1')\n"
        "logging.getLogger('shop').info('not at this level')\n"
        "logging.getLogger('shop').warning('with hunter2', extra={'iban': 'DE00'})\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, told], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    line = json.loads(answer.stderr)
    assert (line["message"], line["fields"], line["instance"]) == ("with ***", {"iban": "***"}, "i-1")


def test_the_root_logger_can_be_left_alone() -> None:
    with written(root=False) as lines:
        app.error("the application's own affair")
        logging.getLogger("windlass.engine").info("ours")
    assert [line["message"] for line in lines.objects] == ["ours"]


def test_our_pools_do_not_tell_of_every_attempt_to_connect() -> None:
    """The engine says once a second that the database is away; pools of the application keep their voice."""
    pool = logging.getLogger("psycopg.pool")
    with written("json") as lines:
        pool.warning("error connecting in %r: %s", "windlass-verbs", "refused")
        pool.warning("reconnection attempt in pool %r failed after %s sec", "windlass-beats", 1.0)
        pool.warning("error connecting in %r: %s", "shop", "refused")
        pool.warning("discarding closed connection")
    assert [json.loads(line)["message"] for line in lines.all] == [
        "error connecting in 'shop': refused",
        "discarding closed connection",
    ]


def test_other_handlers_can_have_the_fields() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(job_id)s %(correlation_id)s %(message)s"))
    handler.addFilter(logs.JobFields())
    app.addHandler(handler)
    token = current_job.set(a_job())
    try:
        app.warning("hello")
    finally:
        current_job.reset(token)
        app.removeHandler(handler)
    assert stream.getvalue() == "0190-a req-7 hello\n"


def test_a_stream_that_is_gone_ends_nothing() -> None:
    stream = io.StringIO()
    with logs.configure("info", "json", stream) as made:
        stream.close()
        app.error("into the void")
    assert made.handler.lost == 1


def test_a_stream_that_is_no_utf8_gets_what_it_can_hold() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="")
    with logs.configure("info", "console", stream):
        app.error("größer → 7")
    assert b"gr\\xf6\\xdfer \\u2192 7\n" in raw.getvalue()


@pytest.mark.parametrize(
    ("level", "style"), [("loud", "json"), ("", "json"), (True, "json"), (-1, "json"), ("info", "xml")]
)
def test_bad_settings_are_named(level: str | int, style: str) -> None:
    with pytest.raises(ConfigError, match=r"log (level|style)"):
        logs.configure(level, style)
