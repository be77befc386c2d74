"""``windlass jobs``, ``submit`` and ``failures``: exit codes, refusals, and what is asked before anything is changed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Windlass
from tests.cli.shop import TARGET, Shop
from tests.waiting import eventually

APP = ("--app", TARGET)
NO_ID = "01a1eeb3-7ddf-7d79-9983-2c11d739063d"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


# ---------------------------------------------------------------------- submit


def test_submit_takes_values_by_the_types_of_the_handler(
    shop: Shop, windlass: Windlass, tmp_path: Path
) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"name": "from a file", "number": 1}')
    answer = windlass("submit", "hello", f"@{file}", "number=7", *APP, "-o", "json")
    assert answer.code == 0
    (made,) = answer.json()
    assert shop.app.jobs.get(made["id"]).args == {"name": "from a file", "number": 7}
    (made,) = windlass("submit", "hello", "name=8", *APP, "-o", "json").json()
    assert shop.app.jobs.get(made["id"]).args == {"name": "8"}, "a text, because the handler takes one"


def test_submit_reads_json_from_stdin(
    shop: Shop, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"name": "piped"}'))
    (made,) = windlass("submit", "hello", "-", *APP, "-o", "json").json()
    assert shop.app.jobs.get(made["id"]).args == {"name": "piped"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("hello", "name=x", "number=many"), "number"),
        (("hello", "nam=x"), "did you mean name?"),
        (("helo", "name=x"), "did you mean hello?"),
        (("hello", "x"), "write name=value"),
        (("hello", "@no-such-file"), "cannot be read"),
        (("hello", "name=x", "--timeout", "1s"), "--wait"),
    ],
)
def test_mistakes_of_submit_end_with_2(
    shop: Shop, windlass: Windlass, arguments: tuple[str, ...], word: str
) -> None:
    answer = windlass("submit", *arguments, *APP)
    assert (answer.code, answer.out) == (2, "") and word in answer.err
    assert not shop.app.jobs.list().jobs


def test_submit_needs_an_app(shop: Shop, windlass: Windlass) -> None:
    answer = windlass("submit", "hello", "name=x")
    assert answer.code == 2 and "--app MODULE:APP" in answer.err


def test_options_of_submit_reach_the_job(shop: Shop, windlass: Windlass) -> None:
    first = windlass("submit", "hello", "name=a", "--key", "k", "--priority", "9", *APP, "-o", "json").json()[
        0
    ]
    again = windlass("submit", "hello", "name=a", "--key", "k", *APP, "-o", "json").json()[0]
    assert (again["id"], again["created"]) == (first["id"], False)
    assert shop.app.jobs.get(first["id"]).priority == 9
    later = windlass("submit", "hello", "name=b", "--delay", "1h", *APP, "-o", "json").json()[0]
    after = windlass("submit", "hello", "name=c", "--after", first["id"], *APP, "-o", "json").json()[0]
    assert (later["state"], after["state"]) == ("scheduled", "waiting")
    lost = windlass("submit", "hello", "name=c", "--after", NO_ID, *APP)
    assert lost.code == 3


def test_the_exit_code_of_a_wait_is_the_outcome(shop: Shop, windlass: Windlass) -> None:
    with shop.working():
        good = windlass("submit", "hello", "name=anna", "--wait", *APP, "-o", "json")
        assert good.code == 0 and good.json()[0]["result"] == "hello anna"
        bad = windlass("submit", "hello", "name=bad", "--wait", *APP, "-o", "json")
        assert bad.code == 1 and bad.json()[0]["error"]["type"] == "ValueError"
        assert "\x1b" not in good.err + bad.err
    late = windlass("submit", "hello", "name=x", "--wait", "--timeout", "100ms", *APP, "-o", "json")
    assert late.code == 124 and late.json()[0]["state"] == "queued"
    assert "no living instance serves the phase hello" in late.err
    id_ = late.json()[0]["id"]
    assert windlass("jobs", "cancel", id_).code == 0
    assert windlass("jobs", "watch", id_).code == 1, "cancelled is a bad end"


# ---------------------------------------------------------------------- watching


def test_watch_ends_with_the_worst_outcome(filled: Shop, windlass: Windlass) -> None:
    ids = filled.ids
    assert windlass("jobs", "watch", ids["done"], ids["site"]).code == 0
    answer = windlass("jobs", "watch", ids["done"], ids["failed"])
    assert answer.code == 1 and "\x1b" not in answer.out
    assert "ValueError: bad row 7" in answer.out
    lines = windlass("jobs", "watch", ids["done"], ids["failed"], "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["completed", "failed"]
    assert windlass("jobs", "watch", ids["queued"], "--timeout", "100ms").code == 124
    assert windlass("jobs", "watch", NO_ID).code == 3


def test_logs_follow_a_job_to_its_end(shop: Shop, windlass: Windlass) -> None:
    job = shop.module.hello.enqueue(name="anna")
    assert windlass("jobs", "logs", job.id).out == ""
    with shop.working():
        answer = windlass("jobs", "logs", job.id, "-f", "-o", "jsonl")
        eventually(lambda: shop.app.jobs.logs(job.id), shop.app.phases.counts)
    assert answer.code == 0
    (line,) = map(json.loads, windlass("jobs", "logs", job.id, "-o", "jsonl").out.splitlines())
    assert (line["message"], line["logger"], line["attempt"]) == ("hello anna", "tests.shop", 1)


# ---------------------------------------------------------------------- lists


def test_a_list_continues_at_its_cursor(filled: Shop, windlass: Windlass) -> None:
    first = windlass("jobs", "ls", "--limit", "4", "-o", "json")
    cursor = first.err.split("--cursor ")[1].strip()
    second = windlass("jobs", "ls", "--limit", "100", "--cursor", cursor, "-o", "json")
    found = [row["id"] for row in first.json() + second.json()]
    assert sorted(found) == sorted(filled.ids.values()) and second.err == ""


def test_filters_are_words_also_negated_ones(filled: Shop, windlass: Windlass) -> None:
    def kinds(*words: str) -> set[str]:
        return {row["kind"] for row in windlass("jobs", "ls", *words, "-o", "json").json()}

    assert kinds("state:completed", "-kind:hello") == {"count", "site", "left"}
    assert kinds("state:completed -kind:hello") == {"count", "site", "left"}
    assert kinds("args.name:anna") == {"hello"}
    assert kinds("-args.name:anna", "-kind:site,left") == {"hello", "count"}


def test_a_filter_that_is_wrong_says_where(filled: Shop, windlass: Windlass) -> None:
    for command in (("ls", "state:failed knd:x"), ("export", "state:failed knd:x")):
        answer = windlass("jobs", *command)
        assert (answer.code, answer.out.count("\n")) == (2, 0)
        assert "character 14" in answer.err and "Did you mean kind?" in answer.err
    answer = windlass("jobs", "cancel", "--where", "state:faild", "--yes")
    assert answer.code == 2 and "character 7" in answer.err


def test_export_prints_every_page(shop: Shop, windlass: Windlass) -> None:
    shop.module.hello.enqueue_many([{"name": f"n{number}"} for number in range(620)])
    answer = windlass("jobs", "export", "kind:hello")
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert {row["args"]["name"] for row in rows} == {f"n{number}" for number in range(620)}
    assert answer.err == "620 jobs\n"
    assert len(windlass("jobs", "export", "kind:hello", "-o", "csv").out.splitlines()) == 621


def test_a_watched_list_is_printed_again_without_cursor_codes(
    filled: Shop, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("windlass.cli.watching.time", SimpleNamespace(sleep=pause))  # and no other thread's
    answer = windlass("jobs", "ls", "state:failed", "--watch")
    assert (answer.code, answer.out.count(filled.ids["failed"])) == (130, 3)
    assert "\x1b" not in answer.out


# ---------------------------------------------------------------------- acts


@pytest.mark.parametrize("verb", ["show", "why", "cancel", "retry", "run", "logs", "watch"])
def test_an_unknown_id_ends_with_3(shop: Shop, windlass: Windlass, verb: str) -> None:
    answer = windlass("jobs", verb, NO_ID)
    assert (answer.code, answer.out) == (3, "") and NO_ID in answer.err


def test_what_the_state_forbids_ends_with_4(filled: Shop, windlass: Windlass) -> None:
    ids = filled.ids
    for arguments in (
        ("cancel", ids["done"]),
        ("retry", ids["queued"]),
        ("run", ids["queued"]),
        ("delete", ids["queued"], "--yes"),
        ("edit", ids["done"], "name=x", *APP),
    ):
        answer = windlass("jobs", *arguments)
        assert (answer.code, answer.out) == (4, ""), answer.err
        assert "Nothing was changed" in answer.err


def test_an_edit_of_a_version_that_is_gone_ends_with_4(filled: Shop, windlass: Windlass) -> None:
    job = filled.ids["queued"]
    version = filled.app.jobs.get(job).version
    assert windlass("jobs", "edit", job, "--priority", "1", "--if-version", version).code == 0
    answer = windlass("jobs", "edit", job, "name=x", "--if-version", version, *APP)
    assert answer.code == 4 and filled.app.jobs.get(job).args == {"name": "carl"}
    assert windlass("jobs", "edit", job, "number=many", *APP).code == 2
    assert windlass("jobs", "edit", job, "name=x").code == 2, "arguments need an app"
    assert windlass("jobs", "edit", job).code == 2


def test_bulk_acts_need_a_filter_and_consent(filled: Shop, windlass: Windlass) -> None:
    for arguments in ((), ("--where", ""), (filled.ids["done"], "--where", "state:failed")):
        answer = windlass("jobs", "retry", *arguments, "--yes")
        assert answer.code == 2, arguments
    answer = windlass("jobs", "retry", "--where", "state:failed")
    assert answer.code == 2 and "Retry 1 job (state:failed)?" in answer.err
    assert windlass("failures", "retry").code == 2
    assert not filled.app.operations.list().operations
    answer = windlass("jobs", "retry", "--where", "kind:nothing", "--yes")
    assert answer.code == 0 and "no job meets the filter" in answer.err


def test_all_jobs_are_meant_only_where_it_is_said(filled: Shop, windlass: Windlass) -> None:
    answer = windlass("jobs", "cancel", "--all", "--yes", "-o", "json")
    (operation,) = answer.json()
    assert answer.code == 1, "those that had ended were refused"
    assert (operation["done"], operation["refused"]) == (4, 5)
    assert answer.err.count("refused: ") == 5


def test_the_question_on_a_terminal_names_the_count(
    filled: Shop, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    answer = windlass("jobs", "delete", "--where", "state:completed")
    assert answer.code == 130 and "Delete 4 jobs (state:completed)?" in answer.err
    assert filled.app.jobs.count("state:completed").count == 4
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert windlass("jobs", "delete", "--where", "state:completed").code == 0
    assert filled.app.jobs.count("state:completed").count == 0


def test_a_detached_operation_is_left_to_workers(filled: Shop, windlass: Windlass) -> None:
    answer = windlass("jobs", "retry", "--where", "state:failed", "--detach", "--yes", "-o", "json")
    (operation,) = answer.json()
    assert (answer.code, operation["state"]) == (0, "running")
    assert windlass("operations", "ls", "--state", "running", "-o", "json").json()[0]["id"] == operation["id"]
    assert windlass("operations", "stop", operation["id"]).code == 0
    assert windlass("operations", "stop", operation["id"]).code == 4
    (shown,) = windlass("operations", "show", operation["id"], "-o", "json").json()
    assert (shown["state"], shown["refusals"]) == ("stopped", [])
    assert windlass("operations", "show", NO_ID).code == 3


def test_acts_are_in_the_audit_trail_with_the_user_of_the_system(filled: Shop, windlass: Windlass) -> None:
    windlass("jobs", "cancel", filled.ids["queued"], "--reason", "ordered twice")
    (record,) = windlass("audit", "--target", "job", "--name", filled.ids["queued"], "-o", "json").json()
    assert record["actor"].startswith("os:") and record["reason"] == "ordered twice"
    assert windlass("audit", "--name", "x").code == 2


def test_secrets_are_hidden_from_the_readers_of_terminals(shop: Shop, windlass: Windlass) -> None:
    job = shop.module.sign_in.enqueue(user="anna", password="tide-and-time")
    for command in (("jobs", "show", job.id), ("jobs", "ls", "-o", "json"), ("jobs", "export")):
        out = windlass(*command).out
        assert "anna" in out and "tide-and-time" not in out
    assert windlass("jobs", "ls", "args.password:tide-and-time").code == 77
    assert shop.app.jobs.get(job.id).args["password"] == "tide-and-time", "the application itself sees it"
