"""Which source of a setting wins, for apps, for builders and in sandboxes; and the limits of payloads as settings."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import windlass
from tests.servers.plugin import FreshPostgres
from windlass import App, Context, Settings
from windlass.config import from_code, load, url_flags
from windlass.errors import ConfigError, PayloadTooLargeError
from windlass.model import State
from windlass.setting_keys import KNOWN
from windlass.testing import Sandbox


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, sqlite_path: Path, fresh_postgres: FreshPostgres) -> str:
    return f"sqlite:///{sqlite_path}" if request.param == "sqlite" else fresh_postgres()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the current one, for files of settings."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shop(**options: Any) -> App:
    """An app whose one kind has no retry policy of its own."""
    app = App(**options)

    @app.job
    def order(text: str = "", ctx: Context = windlass.injected()) -> str:
        return text

    return app


# --- one order ---------------------------------------------------------------------------------------------------------


def test_a_flag_wins_over_code() -> None:
    config = load({"database.url": "sqlite:///code.db"}, flags=url_flags("sqlite:///flag.db"), environ={})
    assert (config.url, config.origin("database.url")) == ("sqlite:///flag.db", "flag --url")


@pytest.mark.parametrize("whole", [True, False], ids=["a Config", "a mapping"])
def test_all_that_code_gives_an_app_is_in_its_configuration(whole: bool) -> None:
    """A URL, options and ``Settings`` were used, and not shown."""
    code = {"background.retry.attempts": 7, "database.url": "sqlite:///lost.db"}
    app = App(
        "sqlite:///code.db",
        config=load(code, environ={}) if whole else code,
        settings=Settings(lease=50, chunk_step=0.5),
        auto_migrate=False,
    )
    found = {item.key: (item.value, item.origin) for item in app.config}
    assert found["database.url"] == ("sqlite:///code.db", "code") and app.url == "sqlite:///code.db"
    assert found["database.auto_migrate"] == (False, "code")
    assert found["background.retry.attempts"] == (7, "code")
    assert found["worker.lease"] == (50.0, "code")
    assert found["background.chunk.retry.step_ms"] == (500.0, "code")
    assert app.config.settings == app.settings
    app.parts.use_flags(url_flags("sqlite:///flag.db"))
    assert (app.url, app.parts.own.url_origin) == ("sqlite:///flag.db", "flag --url")


def test_every_key_can_be_set_in_a_table_of_the_file_and_by_a_variable(tmp_path: Path) -> None:
    for key, known in KNOWN.items():
        default = "none" if known.default is None else known.default
        table, _, name = key.rpartition(".")
        if isinstance(default, dict):
            text, variable = f"[{key}]\n", ""
        else:
            text = f"[{table}]\n{name} = {json.dumps(default)}\n"
            variable = ",".join(default) if isinstance(default, tuple) else str(default)
        (file := tmp_path / "windlass.toml").write_text(text)
        assert load(file=file, environ={}).origin(key) == str(file)
        config = load(file=file, environ={known.variables[0]: variable})
        assert config.origin(key) == f"environment WINDLASS_{key.upper().replace('.', '_')}"
        assert config[key] == known.default


def test_the_options_of_a_database_are_settings(tmp_path: Path) -> None:
    """An app behind a pooler needs no code of its own."""
    environ = {
        "WINDLASS_DATABASE_URL": "postgresql://pooler/jobs",
        "WINDLASS_DATABASE_POOLED": "true",
        "WINDLASS_DATABASE_DIRECT_URL": "postgresql://me:hunter2@db/jobs",
        "WINDLASS_DATABASE_MAX_CONNECTIONS": "4",
        "WINDLASS_DATABASE_BUSY_TIMEOUT": "2.5",
    }
    config = load(environ=environ)
    assert config.store_options("postgres") == {
        "pooled": True,
        "direct_url": "postgresql://me:hunter2@db/jobs",
        "max_connections": 4,
        "connect_timeout": 5.0,
    }
    assert all("hunter2" not in item.shown for item in config)
    with App(f"sqlite:///{tmp_path}/jobs.db", config=config) as app:
        assert app.store.options["busy_timeout"] == 2.5
    with App(f"sqlite:///{tmp_path}/jobs.db", config=config, busy_timeout=1.5) as app:
        assert app.store.options["busy_timeout"] == 1.5, "code wins"


def test_the_options_of_another_database_do_not_follow_a_url_of_the_command_line_or_a_builder(
    tmp_path: Path,
) -> None:
    """Notifications would come from the database that the flag replaced."""
    around: Any = {"pooled": True, "direct_url": "postgresql://db/old"}
    app = App("postgresql://pooler/old", **around)
    other = load({"database.url": "postgresql://db/new"}, environ={}).under(app.parts.own.code)
    assert other.store_options("postgres").keys().isdisjoint({"direct_url"}) and not other["database.pooled"]
    app.parts.use_flags(url_flags(f"sqlite:///{tmp_path}/jobs.db"))
    with app:
        assert "direct_url" not in app.store.options, "SQLite would refuse it"


OLD = {"url": "postgresql://pooler/old", "direct_url": "postgresql://db/old", "pooled": True}
NEW = "postgresql://db/new"


@pytest.mark.parametrize(
    "by", ["code", "environment", "a Config", "a builder", "a framework", "App beside config"]
)
def test_a_url_that_replaces_another_one_has_no_part_in_its_pooler(
    by: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Migrations, notifications and the history of one database were those of the other one."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**OLD, "max_connections": 3}.items()]
    (folder / "windlass.toml").write_text("\n".join(["[database]", *lines]))
    if by == "environment":
        monkeypatch.setenv("WINDLASS_DATABASE_URL", NEW)
    code = {f"database.{key}": value for key, value in OLD.items()}
    app = {
        "code": lambda: App(NEW),
        "environment": App,
        "a Config": lambda: App(NEW, config=load()),
        "a builder": lambda: App(config=load().under({"database.url": NEW})),
        "a framework": App,
        "App beside config": lambda: App(NEW, config={**code, "database.max_connections": 3}),
    }[by]()
    if by == "a framework":
        app.parts.give_url(lambda: NEW, "Django's DATABASES['default']")
    assert app.url == NEW
    assert app.parts.own.store_options(NEW) == {
        "pooled": False,
        "max_connections": 3,
        "connect_timeout": 5.0,
    }
    assert app.parts.own.shown().direct_url is None


def test_a_pooler_of_a_source_without_a_url_is_that_of_the_url_of_another_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is in the environment, everything else in the file; or the other way round."""
    (folder / "windlass.toml").write_text("[database]\npooled = true\ndirect_url = 'postgresql://db/app'\n")
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://pooler/app")
    config = load()
    assert (config["database.pooled"], config.direct_url) == (True, "postgresql://db/app")
    (folder / "windlass.toml").write_text("[database]\nurl = 'postgresql://pooler/app'\npooled = true\n")
    assert load()["database.pooled"], "the same URL twice is no other database"
    framed = App(pooled=True)
    framed.parts.give_url(lambda: NEW, "Django's DATABASES['default']")
    assert framed.parts.own.store_options(NEW)["pooled"], "code describes the URL that code gives"


def test_a_direct_url_is_for_postgresql_only(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"database\.direct_url = .*must be postgresql://"):
        load({"database.url": "sqlite:///a.db", "database.direct_url": "sqlite:///b.db"}, environ={})
    given = {"database.direct_url": "postgresql://me:hunter2@db/app"}
    app = shop(url="sqlite:///a.db", config=given)
    with pytest.raises(
        ConfigError, match=r"way around a pooler of PostgreSQL \(code\).*SQLite file"
    ) as refused:
        _ = app.store
    assert "hunter2" not in str(refused.value) and not list(folder.iterdir())
    with Sandbox(app) as box:
        assert box.config.direct_url is None, "the sandbox has a database of its own"


def test_a_url_of_a_framework_counts_as_code_also_when_it_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "sqlite:///environment.db")
    app, urls = App(), ["sqlite:///first.db"]
    assert (app.url, app.parts.own.url_origin) == (
        "sqlite:///environment.db",
        "environment WINDLASS_DATABASE_URL",
    )
    app.parts.give_url("sqlite:///flask.db", "Flask's WINDLASS_DATABASE_URL")
    assert (app.url, app.config.url) == ("sqlite:///flask.db", "sqlite:///flask.db")
    app.parts.give_url(lambda: urls[0], "Django's DATABASES['default']")
    assert (app.url, app.parts.own.url_origin) == ("sqlite:///first.db", "Django's DATABASES['default']")
    urls[0] = "sqlite:///test_first.db"
    shown = app.parts.own.shown()
    assert (shown.url, shown.origin("database.url")) == (urls[0], "Django's DATABASES['default']")
    app.parts.use_flags(url_flags("sqlite:///flag.db"))
    assert (app.url, app.parts.own.url_origin) == ("sqlite:///flag.db", "flag --url")


# --- builders ----------------------------------------------------------------------------------------------------------


def test_a_builder_has_its_own_defaults_for_kinds_without_their_own(url: str) -> None:
    """Its jobs were retried by the settings of the app that the kinds were defined in."""
    app = shop(config={"background.retry.attempts": 4, "background.processors": 6, "worker.lease": 44})
    app.job(name="own", retry=windlass.retry.fixed(2))(lambda: None)
    given = {"database.url": url, "background.retry.attempts": 9, "background.timeout_ms": 5000}
    with windlass.build(given, app=app) as bg:

        @app.job
        def later() -> None: ...

        phases = bg.app.parts.registry.phases
        assert {name: phase.retry.attempts for name, phase in phases.items()} == {
            "order": 9,
            "later": 9,
            "own": 2,
        }
        assert (phases["order"].timeout, phases["order"].processors, bg.settings.lease) == (5.0, 6, 44.0)
        jobs = [bg.enqueue("order"), bg.app.kind("later").enqueue()]
        requests = [app.kind("order").request(), app.kind("later").request()]
        jobs += bg.app.chain(*requests).jobs
        assert [bg.store.jobs.get(job.id).max_attempts for job in jobs] == [9, 9, 9, 9]
    assert app.parts.registry.phases["order"].retry.attempts == 4


def test_jobs_that_a_builders_handler_enqueues_have_its_defaults(tmp_path: Path) -> None:
    app = App(config={"background.retry.attempts": 4})

    @app.job
    def child() -> None: ...

    @app.job
    def parent() -> list[str]:
        return [
            child.enqueue().id,
            *(job.id for job in child.enqueue_many([child.request(), child.request()])),
        ]

    given = {"database.url": f"sqlite:///{tmp_path}/jobs.db", "background.retry.attempts": 9}
    with windlass.build(given, app=app) as bg:
        made = bg.process_request(bg.enqueue("parent").id).job.result
        assert [bg.store.jobs.get(job).max_attempts for job in made] == [9, 9, 9]


def test_schedules_of_a_builder_have_its_attempts(tmp_path: Path) -> None:
    app = App(config={"background.retry.attempts": 4})

    @app.cron("0 6 * * *")
    def daily() -> None: ...

    given = {"database.url": f"sqlite:///{tmp_path}/jobs.db", "background.retry.attempts": 9}
    with windlass.build(given, app=app) as bg:
        bg.app.sync()
        assert bg.store.schedules.get("daily").max_attempts == 9


def test_a_builder_without_a_url_uses_the_apps(folder: Path) -> None:
    """It opened windlass.db, which nothing had named."""
    app = shop(url="sqlite:///mine.db")
    for given in ({"worker.lease": 44}, load({"worker.lease": 44}, environ={})):
        with windlass.build(given, app=app) as bg:
            bg.enqueue("order")
    assert (folder / "mine.db").exists() and not (folder / "windlass.db").exists()


def test_a_builder_opens_its_database_as_configured(tmp_path: Path) -> None:
    given = {"database.url": f"sqlite:///{tmp_path}/jobs.db", "database.auto_migrate": False}
    with pytest.raises(windlass.errors.SchemaError):
        windlass.build(given, app=shop())


# --- tests of applications ---------------------------------------------------------------------------------------------


def test_a_sandbox_reads_neither_environment_nor_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test must not run by the settings of the machine that it happens to run on."""
    (folder / "windlass.toml").write_text(
        "[background.chunk]\nsize = 3\n[database]\nurl = 'sqlite:///file.db'\n"
    )
    monkeypatch.setenv("WINDLASS_BACKGROUND_RETRY_ATTEMPTS", "2")
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "sqlite:///environment.db")
    app = shop(config={"background.timeout_ms": 1234})
    with Sandbox(app) as box:
        job = box.app.kind("order").enqueue(text="x")
        assert box.store.jobs.get(job.id).max_attempts == 3
        assert box.app.settings.chunk_size == 1000
        assert {item.origin for item in box.app.config} == {"code", "default"}
        assert box.app.parts.registry.phases["order"].timeout == 1.234, "what code says counts"
        box.drain()
        assert box.only("order").state is State.COMPLETED
    assert {item.name for item in folder.iterdir()} == {"windlass.toml"}
    with Sandbox(App(config=load({"background.retry.attempts": 5}))) as box:
        assert box.config.retry.attempts == 5 and box.config.settings.chunk_size == 1000


# --- limits of payloads ------------------------------------------------------------------------------------------------


def test_the_size_and_depth_of_payloads_are_settings(url: str) -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    limits = {"payload.max_bytes": 2_000_000, "payload.max_result_bytes": 3_000_000, "payload.max_depth": 110}
    app = App(url, config=limits)

    @app.job
    def echo(value: Any, ctx: Context) -> Any:
        with ctx.transaction(ends=False) as tx:
            assert tx.put_output("in a transaction", value).value == value
        assert ctx.put_output("copy", value).value == value
        assert [output.value for output in ctx.outputs()] == [value, value]
        return value

    with windlass.build(app=app) as bg:
        for value in ("x" * 1_500_000, deep):
            job = bg.enqueue("echo", value=value)
            done = bg.process_request(job.id).job
            assert (done.state, done.result) == (State.COMPLETED, value)
        with pytest.raises(PayloadTooLargeError, match="2,000,000"):
            bg.enqueue("echo", value="x" * 2_000_000)
    app.close()


def test_a_builder_has_its_own_limits_of_payloads(tmp_path: Path) -> None:
    app = shop(config={"payload.max_bytes": 5000})
    given = {"database.url": f"sqlite:///{tmp_path}/jobs.db", "payload.max_bytes": 50}
    with windlass.build(given, app=app) as bg:
        with pytest.raises(PayloadTooLargeError, match="the limit is 50;"):
            bg.enqueue("order", text="x" * 100)
        with pytest.raises(PayloadTooLargeError, match="the limit is 50;"):
            bg.app.chain(app.kind("order").request(text="x" * 100))
    assert app.parts.registry.phases["order"].signature.encode_args(text="x" * 100)


def test_a_result_or_an_output_over_its_limit_is_refused(url: str) -> None:
    app = App(url, config={"payload.max_result_bytes": 20, "payload.max_depth": 3})

    @app.job(retry=windlass.retry.fixed(1))
    def echo(size: int, where: str, ctx: Context) -> str:
        if where == "transaction":
            with ctx.transaction(ends=False) as tx:
                tx.put_output("copy", "x" * size)
        elif where == "output":
            ctx.put_output("copy", "x" * size)
        return "x" * size if where == "result" else ""

    with windlass.build(app=app) as bg:
        for where in ("transaction", "output", "result"):
            for size, state in ((18, State.COMPLETED), (19, State.FAILED)):
                job = bg.enqueue("echo", size=size, where=where)
                done = bg.process_request(job.id).job
                assert done.state is state, (size, where)
        app.job(name="deep")(lambda value: None)
        with pytest.raises(PayloadTooLargeError, match="3 levels"):
            bg.enqueue("deep", value=[[[1]]])
    app.close()


def test_no_setting_is_read_while_modules_are_imported(folder: Path) -> None:
    """Not even for a schedule, whose arguments are checked where it is written: the environment may be set later."""
    (folder / "windlass.toml").write_text("[nonsense]\nx = 1\n")
    app = shop()
    app.schedule("daily", "order", "0 6 * * *", args={"text": "x"})
    with pytest.raises(ConfigError, match="nonsense"):
        _ = app.config


def test_settings_of_code_alone() -> None:
    config = from_code({"background": {"retry": {"base_delay_ms": 50, "jitter_ratio": 0}}})
    assert config.retry.delay(1) == timedelta(milliseconds=50)
    with pytest.raises(ConfigError, match=r"did you mean worker\.lease"):
        from_code({"worker.leese": 5})
