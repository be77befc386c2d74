"""Titles of jobs: made of arguments when a job is read, as far as the reader may see the arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from windlass import App
from windlass.control.actor import ADMIN, Actor
from windlass.errors import ConfigError
from windlass.handlers.title import MAX_TITLE, Title, plain_title
from windlass.model.principal import Principal

BOSS = Principal("boss", roles=frozenset({ADMIN}))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    found = App(f"sqlite:///{tmp_path_factory.mktemp('titles')}/jobs.db")

    @found.job(title="invoice {number} of {customer.name}")
    def invoice(number: int, customer: dict[str, str]) -> None: ...

    @found.job(title="login {password} of {note}")
    def login(password: str, note: str = "") -> None: ...

    @found.job
    def plain(
        first: str, flag: bool = False, second: dict[str, int] | None = None, third: int = 3
    ) -> None: ...

    line = found.pipeline("line", title="order {order}")

    @line.phase("fetch")
    def fetch(order: int) -> int:
        return order

    @line.phase("post")
    def post(order: int) -> None: ...

    with found:
        yield found


def title(app: App, kind: str, **arguments: Any) -> str:
    job = app.enqueue(kind, **arguments)
    found = app.jobs.get(job.id).title
    listed = next(one for one in app.jobs.list(f"kind:{kind}").jobs if one.id == job.id)
    assert listed.title == found
    return found


def test_a_title_is_made_of_the_arguments(app: App) -> None:
    assert title(app, "invoice", number=4711, customer={"name": "Müller"}) == "invoice 4711 of Müller"
    assert title(app, "line", order=9) == "order 9", "of a pipeline, whatever phase the job is in"


def test_a_value_that_is_missing_is_an_ellipsis(app: App) -> None:
    assert title(app, "invoice", number=1, customer={}) == "invoice 1 of …"


def test_without_a_template_it_is_the_kind_and_the_first_short_arguments(app: App) -> None:
    assert title(app, "plain", first="anna", second={"a": 1}, third=7) == "plain · anna · 7"
    assert plain_title("plain", {}) == plain_title("plain", "no object") == "plain"


def test_secrets_are_hidden_in_titles(app: App) -> None:
    job = app.enqueue("login", password="hunter2", note="token=ghp_0123456789abcdefghijABCDEFGHIJ012345")
    person = app.acting_as(BOSS).jobs.get(job.id)
    assert "hunter2" not in person.title and "ghp_" not in person.title
    assert "hunter2" in app.jobs.get(job.id).title, "the application itself gets everything"


def test_a_title_is_payload(app: App) -> None:
    job = app.enqueue("invoice", number=4711, customer={"name": "Müller"})
    assert app.acting_as(Actor.of(BOSS, hides_payload=True)).jobs.get(job.id).title == "invoice"
    assert app.acting_as(BOSS).jobs.get(job.id).title == "invoice 4711 of Müller"


def test_a_title_is_one_short_line() -> None:
    made = Title("a {{{x}}} b", ["x"]).of({"x": "two\nlines\x1b\x00 " + "w" * 5000})
    assert made.startswith("a {two lines w") and len(made) == MAX_TITLE and made.endswith("…")


@pytest.mark.parametrize("template", ["", "  ", "{", "}", "{}", "{numbr}", "{x.}", "{x!r}", "{x[0]}", 7])
def test_a_template_that_cannot_work_is_refused(template: Any) -> None:
    with pytest.raises(ConfigError, match="title") as error:
        Title(template, ["number", "x"])
    if template == "{numbr}":
        assert "did you mean number?" in str(error.value)


def test_a_title_belongs_to_a_kind_and_not_to_a_phase() -> None:
    app = App("sqlite://")
    with pytest.raises(ConfigError, match="title"):
        app.pipeline("line").phase("fetch", title="x")


def test_the_title_of_a_job_of_another_application_is_the_plain_one(app: App) -> None:
    job = app.enqueue("invoice", number=4711, customer={"name": "Müller"})
    with App(app.url) as other:
        assert other.jobs.get(job.id).title == "invoice · 4711"
    assert json.loads(app.jobs.get(job.id).args_json)["number"] == 4711
