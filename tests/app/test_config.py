"""Settings from code, file and environment: who wins, where each came from, and what is said about a bad one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass.app.app import App
from windlass.config import load
from windlass.errors import ConfigError, SchemaError
from windlass.setting_keys import KNOWN
from windlass.settings import Settings


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
    assert (config.url, config.origin("database.url")) == ("sqlite:///f.db", str(file))
    assert config["background.redis_lock_enabled"] is False
    assert config.retry.attempts == 6 and config.retry.delay(1) == timedelta(milliseconds=10)


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
        (
            {"background.retry.jitter_ratio": 2},
            "background.retry.jitter_ratio = 2 cannot be used: it must be a number from 0 to 1 (code)",
        ),
        (
            {"background.retry.max_delay_ms": 1},
            "background.retry.max_delay_ms = 1.0 cannot be used: it must be at least background.retry.base_delay_ms (1000, default) (code)",
        ),
        ({"background.retry.base_delay_ms": 1e12}, "background.retry.base_delay_ms = 1000000000000.0 cannot"),
        ({"background.timeout_ms": 0}, "background.timeout_ms = 0"),
        ({"background.processors": 0}, "a whole number from 1 to 100,000 (code)"),
        ({"worker.processors": {"welcome": 0}}, "worker.processors = {'welcome': 0}"),
        ({"worker.processors": "welcome"}, "whole numbers by phase"),
        (
            {"worker.scan": "abc"},
            (
                "worker.scan = 'abc' cannot be used: it must be a number of seconds from 0.01 to 2,592,000; "
                "in a file or the environment also 500ms, 90s, 15m, 1h 30m, 7d (code)"
            ),
        ),
        (
            {"worker.page": 0},
            "worker.page = 0 cannot be used: it must be a whole number from 1 to 10,000 (code)",
        ),
        (
            {"worker.lease": 12},
            "worker.lease = 12.0 cannot be used: it must be more than heartbeat (10 s) + margin (5 s); raise it, or lower those (code)",
        ),
        ({"worker.profile": "gentle", "worker.heartbeat": 299}, "worker.lease = 300.0"),
        (
            {"database.url": "mysql://root@db/jobs"},
            "database.url = 'mysql://…' cannot be used: it must be sqlite:///file.db or postgresql://",
        ),
        ({"database.auto_migrate": "perhaps"}, "true or false"),
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
    with pytest.raises(ConfigError) as caught:
        load(code, environ={})
    assert told in str(caught.value)


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


@pytest.mark.parametrize("key", [key for key, known in KNOWN.items() if known.is_secret])
@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2"},
        {"hunter2": 1},
        ["postgresql://u:hunter2@h/d"],
        ("hunter2",),
        b"postgresql://u:hunter2@h/d",
        "hunter2",
        "mysql://u:hunter2@h/d",
        "postgresql ://u:hunter2@h/d",
        "postgresql://u:hunter2 and more@h/d",
        'postgresql://u:hunter2"more@h:x/d',
    ],
)
def test_no_error_contains_a_secret_whatever_its_type_is(key: str, value: Any) -> None:
    if (
        key == "api.session_secret" and isinstance(value, str) and len(value) >= 32
    ):  # a secret as it should be
        assert "hunter2" not in f"{load({key: value}, environ={})[key]!r}"
        return
    with pytest.raises(ConfigError, match=key) as caught:
        load({key: value}, environ={})
    assert "hunter2" not in f"{caught.value} {caught.value.value} {caught.value.__cause__!r}"
    with pytest.raises(ConfigError) as caught:
        load({"worker.page": 0, key: value}, environ={})
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__!r}"


def test_a_url_that_is_a_table_of_the_file_is_not_shown(tmp_path: Path) -> None:
    (file := tmp_path / "windlass.toml").write_text('[database.url]\nhost = "db"\npassword = "hunter2"\n')
    with pytest.raises(
        ConfigError, match=r"^database\.url = '\*\*\* \(a table\)' cannot be used: it must be"
    ) as caught:
        load(file=file, environ={})
    assert "hunter2" not in str(caught.value)
    file.write_text('[databse]\n"postgresql://u:hunter2@h/d" = 1\n')
    with pytest.raises(ConfigError, match="there is no such key") as caught:
        load(file=file, environ={})
    assert "hunter2" not in str(caught.value)


def test_a_key_without_its_table_is_told_with_the_table(tmp_path: Path) -> None:
    (file := tmp_path / "windlass.toml").write_text("lease = 45\n")
    with pytest.raises(ConfigError, match=r"there is no such key .*; did you mean worker\.lease\?$"):
        load(file=file, environ={})


@pytest.mark.parametrize("url", [{"password": "hunter2"}, ["hunter2"], 5, b"sqlite:///jobs.db"])
def test_a_url_in_code_that_is_no_text_is_refused(url: Any) -> None:
    """It was ignored, and the jobs went to the default database."""
    with pytest.raises(ConfigError, match=r"^database\.url = '\*\*\* ") as caught:
        _ = App(url).url
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("WINDLASS_WORKER_LEESE", "WINDLASS_WORKER_LEASE"),
        ("WINDLASS_WORKR_LEASE", "WINDLASS_WORKER_LEASE"),
        ("WINDLASS_DATABASE_URI", "WINDLASS_DATABASE_URL"),
        ("WINDLASS_CONFG", "WINDLASS_CONFIG"),
        ("WINDLASS_WORKER_HAERTBEAT", "WINDLASS_WORKER_HEARTBEAT"),
        ("WINDLASS_WORKER_HARTBEET", "WINDLASS_WORKER_HEARTBEAT"),
        ("WINDLASS_WROKER_SCAM", "WINDLASS_WORKER_SCAN"),
        ("WINDLASS_WORKER_SCANUNHEARD", "WINDLASS_WORKER_SCAN_UNHEARD"),
        ("WINDLASS_WORKER_PROCESSES", "WINDLASS_WORKER_PROCESSORS"),
        ("WINDLASS_DATABASE_URLS", "WINDLASS_DATABASE_URL"),
        ("WINDLASS_BACKGROUND_LOCK_TTL", "WINDLASS_BACKGROUND_LOCK_TTL_MS"),
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
        "WINDLASS_HOME",
        "WINDLASS_WORKER_NAME",
        "WINDLASS_WORKER_PATH",
        "WINDLASS_WORKER_CACHE",
        "WINDLASS_WORKER_PLACE",
        "WINDLASS_DATABASE_USER",
        "WINDLASS_CONFIG_DIR",
    ],
)
def test_variables_of_others_are_left_alone(variable: str) -> None:
    """Kubernetes makes some for each service, and people have their own."""
    load(environ={variable: "1"})


def test_every_number_of_the_settings_can_be_set() -> None:
    assert {
        "worker.lease",
        "worker.page",
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


def test_where_a_bad_setting_came_from_is_told_whatever_it_clashes_with(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text("[worker]\nheartbeat = 20\n")
    with pytest.raises(ConfigError, match=r"worker\.lease = 22\.0 .*\(environment WINDLASS_WORKER_LEASE\)"):
        load(file=file, environ={"WINDLASS_WORKER_LEASE": "22"})


def test_processors_and_time_limits_come_from_file_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "windlass.toml"
    file.write_text("[background]\nprocessors = 4\ntimeout_ms = 60000\n[worker.processors]\nreport = 2\n")
    app = App(config=load(file=file, environ={"WINDLASS_BACKGROUND_TIMEOUT_MS": "none"}))

    @app.job
    def says_nothing() -> None: ...

    @app.job(processors=7, timeout=5)
    def says_both() -> None: ...

    phases = app.parts.registry.phases
    assert (phases["says_nothing"].processors, phases["says_nothing"].timeout) == (4, None)
    assert (phases["says_both"].processors, phases["says_both"].timeout) == (7, 5)
    assert app.settings.processors == {"report": 2}
    environ = {"WINDLASS_WORKER_PROCESSORS": "report=3, mail=20"}
    assert load(file=file, environ=environ).settings.processors == {"report": 3, "mail": 20}


def test_an_engine_has_the_processors_of_the_configuration(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    config = {"database.url": url, "background.processors": 2, "worker.processors": {"b": 1}}
    with App(config=load(config, environ={})) as app:
        app.job(name="a")(lambda: None)
        app.job(name="b")(lambda: None)
        names = [name for name, *_ in app.worker().processors()]
    assert names == ["a-processor-1", "a-processor-2", "b-processor-1"]


def test_a_profile_shows_what_is_in_force() -> None:
    config = load({"worker.profile": "gentle", "worker.page": 20}, environ={})
    shown = {item.key: (item.value, item.origin) for item in config}
    assert shown["worker.lease"] == (300.0, "profile gentle")
    assert shown["worker.recovery"] == (300.0, "profile gentle")
    assert shown["worker.page"] == (20, "code")
    assert shown["worker.grace"] == (30.0, "default")
    assert config.settings == Settings.gentle(page=20)


def test_whether_the_schema_is_made_on_opening_is_a_setting(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    without = load({"database.url": url, "database.auto_migrate": "false"}, environ={})
    with App(config=without) as app, pytest.raises(SchemaError, match="windlass db migrate"):
        app.store.phases.counts()
    assert not (tmp_path / "jobs.db").exists(), "asking makes no file"
    with App(config=load({"database.url": url}, environ={})) as app:
        assert app.store.phases.counts() == {}


def test_chunk_settings_come_from_file_environment_and_code(tmp_path: Path) -> None:
    usual = load({}, environ={}).settings
    assert (usual.chunk_size, usual.chunk_attempts, usual.chunk_step) == (1000, 3, 1.0)
    (file := tmp_path / "windlass.toml").write_text(
        "[background.chunk]\nsize = 50\nretry = { attempts = 7, step_ms = 250 }\n"
    )
    config = load(
        {"background.chunk.size": 5},
        file=file,
        environ={"WINDLASS_BACKGROUND_CHUNK_RETRY_ATTEMPTS": "2"},
    )
    made = config.settings
    assert (made.chunk_size, made.chunk_attempts, made.chunk_step) == (5, 2, 0.25)
    assert [
        config.origin(f"background.chunk.{key}") for key in ("size", "retry.attempts", "retry.step_ms")
    ] == [
        "code",
        "environment WINDLASS_BACKGROUND_CHUNK_RETRY_ATTEMPTS",
        str(file),
    ]
    gentle = load({"worker.profile": "gentle", "background.chunk.retry.step_ms": 10}, environ={}).settings
    assert gentle == Settings.gentle(chunk_step=0.01)


@pytest.mark.parametrize("key", ["size", "retry.attempts", "retry.step_ms"])
def test_a_chunk_setting_of_nothing_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"background.chunk.{key} = 0"):
        load({f"background.chunk.{key}": 0}, environ={})
