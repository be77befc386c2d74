"""Durations in settings: one notation and one parser for all of them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from windlass.config import load
from windlass.errors import ConfigError
from windlass.setting_keys import KNOWN


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30 s", 30), (" 5min ", 300), ("1h 30m", 5400), ("1 h 30 m", 5400), ("90s", 90), ("1d 1s", 86_401)],
)
def test_every_duration_is_read_by_one_parser(text: str, seconds: float) -> None:
    """Seconds, milliseconds and days; also the settings that are not seconds understand the same texts."""
    units = {"seconds": 1.0, "milliseconds": 0.001, "days": 86_400.0}
    for key, known in KNOWN.items():
        unit = next((unit for unit in units if f"number of {unit} " in known.allowed), None)
        if unit is not None:
            least, most = _bounds(known.allowed)
            wanted = seconds / units[unit]
            if least <= wanted <= most:
                assert known.read(text) == pytest.approx(wanted), key
                assert known.read(timedelta(seconds=seconds)) == pytest.approx(wanted), key
            assert "1h 30m" in known.allowed, key
    config = load({"worker.lease": text, "worker.heartbeat": 1, "worker.margin": 1}, environ={})
    assert config.settings.lease == seconds
    found = load(environ={"WINDLASS_BACKGROUND_TIMEOUT_MS": text, "WINDLASS_RETENTION_FAILED": text})
    assert found["background.timeout_ms"] == seconds * 1000
    assert found["retention.failed"] == seconds


def _bounds(allowed: str) -> tuple[float, float]:
    found = re.search(r"from ([\d.,]+) to ([\d.,]+\d)", allowed)
    assert found is not None, allowed
    return float(found[1].replace(",", "")), float(found[2].replace(",", ""))


def test_a_duration_may_have_milliseconds_and_none_and_forever() -> None:
    config = load(
        {
            "background.lock_ttl_ms": "2 s",
            "background.lock_fallback_ttl_ms": "1s 250ms",
            "worker.scan": "500ms",
        },
        environ={"WINDLASS_BACKGROUND_TIMEOUT_MS": " none ", "WINDLASS_RETENTION_COMPLETED": " forever "},
    )
    assert (config["background.lock_ttl_ms"], config["background.lock_fallback_ttl_ms"]) == (2000, 1250)
    assert config["worker.scan"] == 0.5
    assert config["background.timeout_ms"] is None and config["retention.completed"] is None


@pytest.mark.parametrize("key", ["worker.lease", "background.timeout_ms", "retention.failed"])
@pytest.mark.parametrize(
    "text", ["30 x", "1h30", "30m 1h", "1h 1h", "1.5h", "-5s", "s", "five s", "1 h, 30 m", "²s"]
)
def test_a_text_that_is_no_duration_is_refused_with_those_that_are(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"500ms, 90s, 15m, 1h 30m, 7d") as caught:
        load({key: text}, environ={})
    assert caught.value.key == key and caught.value.value == text


def test_a_duration_that_must_end_is_not_forever() -> None:
    with pytest.raises(
        ConfigError, match=r"^worker\.lease = 'forever' cannot be used: it must be a number of seconds"
    ):
        load({"worker.lease": "forever"}, environ={})
