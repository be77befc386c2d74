"""The dashboard for Grafana that ships with the metrics: every metric and label in it exists, and its panels do not overlap."""

from __future__ import annotations

import itertools
import json
import re
from importlib.resources import files

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.observe.test_metrics import _metrics

BOARD = json.loads(files("windlass.observe").joinpath("grafana.json").read_text("utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
METRIC = re.compile(r"\b(windlass_\w+)(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def samples() -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(_metrics().render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_metric_of_a_panel_exists_with_its_labels(panel, samples) -> None:
    for target in panel["targets"]:
        expression = target["expr"]
        found = METRIC.findall(expression)
        assert found
        assert expression.count("(") == expression.count(")")
        for name, selector in found:
            assert name in samples, name
            known = {label for labels in samples[name] for label in labels} | {"instance"}
            for label, operator, value in re.findall(r'(\w+)(!=|=~|=)"([^"]*)"', selector):
                assert label in known, (name, label)
                if not value.startswith("$"):
                    wanted = set(value.split("|")) if operator == "=~" else {value}
                    assert wanted <= {labels[label] for labels in samples[name]}, (name, label)
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert re.search(rf"by \([^)]*\b{label}\b", expression), f"{label} is lost in {expression}"


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_every_panel_is_explained_and_asks_the_chosen_source(panel) -> None:
    assert panel["description"].endswith(".")
    assert panel["datasource"]["uid"] == "${datasource}"
    assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def test_the_variables_are_those_that_the_panels_use(samples) -> None:
    names = {variable["name"] for variable in BOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(BOARD["panels"])))
    assert used - {"__rate_interval"} == names
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.findall(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])[0]
            assert name in samples and label == variable["name"]


def test_no_panel_covers_another() -> None:
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    cells = [
        {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        for g in (panel["gridPos"] for panel in BOARD["panels"])
    ]
    assert not any(one & other for one, other in itertools.combinations(cells, 2))
