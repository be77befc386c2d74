"""Settings from code, file and environment: who wins, where each came from, and what is said about a bad one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windlass.config import KNOWN, load
from windlass.errors import ConfigError


def test_defaults_are_those_of_the_requirements() -> None:
    config = load(environ={})
    assert config["background.retry.attempts"] == 3 and config["background.lock_ttl_ms"] == 300_000
    assert config.url == "sqlite:///windlass.db" and config["runtime.max_concurrent_calls"] is None
    assert config.settings.lease == 30.0 and {item.origin for item in config} == {"default"}


def test_code_wins_over_environment_wins_over_file(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text(
        "[background.retry]\nattempts = 4\nbase_delay_ms = 10\njitter_ratio = 0\n[worker]\nlease = 60\n[database]\nurl = 'sqlite:///f.db'\n"
    )
    environ = {
        "WINDLASS_BACKGROUND_RETRY_ATTEMPTS": "5",
        "WINDLASS_WORKER_LEASE": "45",
        "BACKGROUND_REDIS_LOCK_ENABLED": "false",
    }
    config = load({"background.retry.attempts": 6}, file=file, environ=environ)
    assert (config["background.retry.attempts"], config.origin("background.retry.attempts")) == (6, "code")
    assert (config.settings.lease, config.origin("worker.lease")) == (
        45.0,
        "environment WINDLASS_WORKER_LEASE",
    )
    assert (config.url, config.origin("database.url")) == ("sqlite:///f.db", "windlass.toml")
    assert config["background.redis_lock_enabled"] is False
    assert config.retry.attempts == 6 and config.retry.delay(1).total_seconds() == 0.01


def test_nested_code_and_profiles() -> None:
    config = load(
        {"worker": {"profile": "gentle", "scan": 30}, "runtime": {"max_concurrent_calls": 7}}, environ={}
    )
    assert (config.settings.lease, config.settings.scan, config.settings.max_concurrent_calls) == (
        300.0,
        30.0,
        7,
    )


def test_a_file_in_the_folder_is_found_and_one_that_was_named_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "windlass.toml").write_text("[background]\nlock_ttl_ms = 5000\n")
    assert load(environ={})["background.lock_ttl_ms"] == 5000
    with pytest.raises(ConfigError, match="a file that exists"):
        load(environ={"WINDLASS_CONFIG": "gone.toml"})
    (tmp_path / "broken.toml").write_text("[background\n")
    with pytest.raises(ConfigError, match=r"broken\.toml.*TOML"):
        load(file="broken.toml", environ={})


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ({"background.retry.attempts": 0}, "background.retry.attempts = 0"),
        ({"background.retry.attempts": "many"}, "whole number"),
        ({"background.retry.attempts": 2.5}, "whole number"),
        ({"background.retry.jitter_ratio": 3}, "jitter"),
        ({"background.redis_lock_required": "perhaps"}, "true or false"),
        ({"background.retry.atempts": 3}, "did you mean background.retry.attempts?"),
        ({"worker.lease": "soon"}, "worker.lease = 'soon'"),
        ({"worker.heartbeat": 40}, "heartbeat"),
        ({"worker.profile": "wild"}, "default or gentle"),
        ({"database.url": ""}, "database.url"),
        ({"runtime.max_concurrent_calls": 0}, "max_concurrent_calls"),
    ],
)
def test_a_bad_setting_is_named_with_its_value_and_what_is_allowed(code: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace(".", r"\.").replace("?", r"\?")):
        load(code, environ={})


def test_all_bad_settings_are_named_at_once_and_secrets_are_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            {
                "background.retry.attempts": 0,
                "background.lock_ttl_ms": "x",
                "databse.url": "postgresql://u:hunter2@h/d",
            },
            environ={"WINDLASS_DATABASE_URI": "postgresql://u:hunter3@h/d"},
        )
    text = str(caught.value)
    assert all(key in text for key in ("attempts", "lock_ttl_ms", "databse.url", "WINDLASS_DATABASE_URI"))
    assert "hunter" not in text
    config = load({"database.url": "postgresql://u:hunter2@h/d"}, environ={})
    assert all("hunter2" not in item.shown for item in config)


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("WINDLASS_WORKER_LEESE", "WINDLASS_WORKER_LEASE"),
        ("WINDLASS_WORKR_LEASE", "WINDLASS_WORKER_LEASE"),
        ("WINDLASS_DATABASE_URI", "WINDLASS_DATABASE_URL"),
        ("WINDLASS_CONFG", "WINDLASS_CONFIG"),
    ],
)
def test_a_misspelt_variable_is_refused(variable: str, near: str) -> None:
    """It would be ignored, and the worker would run by other figures than its owner thinks."""
    with pytest.raises(ConfigError, match=f"^{variable} .*did you mean {near}\\?$"):
        load(environ={variable: "1"})


@pytest.mark.parametrize(
    "variable",
    [
        "WINDLASS_WORKER_SERVICE_HOST",
        "WINDLASS_WORKER_PORT",
        "WINDLASS_WORKER_PORT_8080_TCP_ADDR",
        "WINDLASS_REDIS_SERVICE_PORT",
        "WINDLASS_REDIS_PORT",
        "WINDLASS_DATABASE_PASSWORD",
        "WINDLASS_DATABASE_HOST",
        "WINDLASS_PRINCIPAL_NAME",
        "WINDLASS_TEST_REDIS_URL",
    ],
)
def test_variables_of_others_are_left_alone(variable: str) -> None:
    """Kubernetes makes some for each service, and people have their own."""
    load(environ={variable: "1"})


def test_every_number_of_the_settings_can_be_set() -> None:
    assert {
        "worker.lease",
        "worker.batch",
        "worker.grace",
        "worker.fail_unserved",
        "worker.memory_limit",
    } <= set(KNOWN)
    assert (
        load(
            {"worker.fail_unserved": "none", "worker.memory_limit": 2**30}, environ={}
        ).settings.fail_unserved
        is None
    )
