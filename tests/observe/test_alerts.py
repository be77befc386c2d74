"""The alert rules that ship with the metrics: every metric and label in them exists."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.observe.lines import LEVELS
from tests.observe.test_metrics import _metrics

RULES = files("windlass.observe").joinpath("alerts.yml").read_text("utf-8")
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "logs-and-metrics.md"
BLOCKS = RULES.split("      - alert: ")[1:]
METRIC = re.compile(r"(windlass_\w+)(?:\{([^}]*)\})?")


def _expression(block: str) -> str:
    (found,) = re.findall(r"^ {8}expr: (.+)$", block, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_every_metric_of_a_rule_exists_with_its_labels(block: str) -> None:
    samples: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(_metrics().render().decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    found = METRIC.findall(_expression(block))
    assert found
    for name, selector in found:
        assert name in samples, name
        for label, operator, value in re.findall(r'(\w+)(!=|=~|=)"([^"]*)"', selector):
            values = {labels[label] for labels in samples[name]}
            wanted = set(value.split("|")) if operator == "=~" else {value}
            assert wanted <= values, (name, label, wanted - values)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_every_rule_is_whole(block: str) -> None:
    expression = _expression(block)
    assert expression.count("(") == expression.count(")") and expression.count("[") == expression.count("]")
    assert re.search(r"^ {10}severity: (warning|critical)$", block, re.MULTILINE)
    assert re.search(r'^ {10}summary: ".+"$', block, re.MULTILINE)
    (description,) = re.findall(r'^ {10}description: "(.+)"$', block, re.MULTILINE)
    for event in re.findall(r"\b(?:job|store|loop)\.\w+", description):
        assert event in LEVELS, event
    for label in re.findall(r"\$labels\.(\w+)", block):
        assert label in ("instance", "phase", "part")


def test_sustained_failures_of_redis_have_a_rule_of_their_own() -> None:
    (block,) = [block for block in BLOCKS if block.startswith("WindlassRedisAway")]
    assert "windlass_redis_errors_total" in _expression(block) and "        for: 5m\n" in block


def test_the_guide_names_every_rule() -> None:
    text = GUIDE.read_text("utf-8")
    for block in BLOCKS:
        assert f"`{block.splitlines()[0]}`" in text, block.splitlines()[0]
