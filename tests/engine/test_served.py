"""Which phases an engine serves: chosen by phase, kind, group and pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass import App, Settings
from windlass.config import load
from windlass.engine.engine import Engine
from windlass.errors import ConfigError

GROUPS = {"heavy": ("report*", "sites:model-analysis"), "all-sites": ["sites"], "gone": ("report*", "mail*")}


@pytest.fixture
def app(tmp_path: Path) -> App:
    app = App(f"sqlite:///{tmp_path}/jobs.db", settings=Settings(groups=GROUPS))

    def work() -> None: ...

    for name in ("report", "report-daily", "welcome"):
        app.job(name=name)(work)
    sites = app.pipeline("sites")
    for label in ("fetch", "model-analysis"):
        sites.phase(label)(work)
    return app


def worker(app: App, **changes: Any) -> Engine:
    try:
        return app.worker(**changes)
    finally:
        app.close()


SITES = ["sites:fetch", "sites:model-analysis"]


@pytest.mark.parametrize(
    ("chosen", "served"),
    [
        (["welcome"], ["welcome"]),
        (["sites"], SITES),
        (["sites:fetch"], ["sites:fetch"]),
        (["report*"], ["report", "report-daily"]),
        (["*ites"], SITES),  # the kind's name matches
        (["sites:*"], SITES),
        (["report-[a-z]aily", "w?lcome"], ["report-daily", "welcome"]),
        (["heavy"], ["report", "report-daily", "sites:model-analysis"]),
        (["all-sites", "welcome"], [*SITES, "welcome"]),
        (["Welcome*", "welcome"], None),
    ],
    ids=str,
)
def test_phases_are_chosen_by_name_kind_group_and_pattern(
    app: App, chosen: list[str], served: list[str] | None
) -> None:
    if served is None:  # names are case-sensitive
        with pytest.raises(ConfigError, match="pattern that matches"):
            worker(app, phases=chosen)
    else:
        assert sorted(worker(app, phases=chosen).phases) == sorted(served)


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ("wellcome", r"phases = 'wellcome'.*phases: report, .*sites:fetch.*kinds of several phases: sites; groups: heavy, .*did you mean welcome\?"),
        ("site", r"did you mean sites\?"),
        ("heavi", r"did you mean heavy\?"),
        ("mail*", r"a pattern that matches a phase or a kind; phases: report"),
        ("gone", r"groups.gone = 'mail\*'.*a pattern that matches"),
    ],
)  # fmt: skip
def test_a_name_that_selects_nothing_lists_what_there_is(app: App, chosen: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        worker(app, phases=("welcome", chosen))
    with pytest.raises(ConfigError, match=told.replace("phases = ", "processors = ")):
        worker(app, processors={chosen: 3})


def test_a_group_with_the_name_of_a_kind_is_refused(app: App) -> None:
    groups = {"sites": ("welcome",)}
    with pytest.raises(ConfigError, match=r"groups\.sites.*rename the group"):
        worker(app, phases=("sites",), groups=groups)
    assert len(worker(app, groups=groups).phases) == 5, "of no matter while it is not chosen"


@pytest.mark.parametrize(
    "groups", [["x"], {"a b": ("x",)}, {"x*": ("x",)}, {"": ("x",)}, {"x": "report"}, {"x": ()}, {"x": None}]
)
def test_a_group_that_cannot_be_meant_is_refused(groups: Any) -> None:
    with pytest.raises(ConfigError, match="groups"):
        Settings(groups=groups)


def test_numbers_of_processors_follow_the_same_choice(app: App) -> None:
    counts = worker(app, processors={"report": 2, "report*": 5, "all-sites": 3, "sites:fetch": 1}).settings
    assert counts.processors == {"report": 2, "report-daily": 5, "sites:fetch": 1, "sites:model-analysis": 3}
    later = worker(app, processors={"heavy": 4, "report-*": 6}).settings.processors
    assert later == {"report": 4, "report-daily": 6, "sites:model-analysis": 4}


def test_groups_come_from_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text('[worker.groups]\nheavy = ["report*", "sites:model-analysis"]\n')
    assert load(file=file, environ={}).settings.groups == {"heavy": ("report*", "sites:model-analysis")}
    environ = {"WINDLASS_WORKER_GROUPS": "heavy=report* sites,light=welcome"}
    assert load(file=file, environ=environ).settings.groups == {
        "heavy": ("report*", "sites"),
        "light": ("welcome",),
    }
    assert load({"worker.groups": {"a": ["b"]}}, environ={}).settings.groups == {"a": ("b",)}
    for bad in ("heavy", "heavy=", "=x"):
        with pytest.raises(ConfigError, match=r"worker\.groups"):
            load(environ={"WINDLASS_WORKER_GROUPS": bad})
