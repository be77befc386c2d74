"""What the client does with refusals, lost responses and servers that are away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.client.conftest import Server
from windlass import (
    AuthenticationError,
    ConfigError,
    FilterError,
    IllegalTransitionError,
    JobFailed,
    JobNotFoundError,
    KeyConflictError,
    NotAllowedError,
    OperationNotFoundError,
    PayloadError,
    ResultTimeout,
    StoreUnreachableError,
    WindlassError,
)
from windlass.client import Client

NO_ID = "01a1eeb3-7ddf-7d79-9983-2c11d739063d"
TOKEN = "token-of-the-boss"


# ---------------------------------------------------------------------- errors


def test_errors_are_those_of_the_library(client: Client) -> None:
    done = client.submit("double", {"number": 1})
    done.wait(60)
    failed = client.submit("fail", {"why": "bad row 7"})
    with pytest.raises(JobFailed, match="bad row 7") as failure:
        failed.result(60)
    assert failure.value.error["type"] == "ValueError"
    cases = [
        (JobNotFoundError, lambda: client.jobs.get(NO_ID)),
        (ConfigError, lambda: client.jobs.get("../phases")),
        (OperationNotFoundError, lambda: client.operations.get(NO_ID)),
        (IllegalTransitionError, lambda: done.cancel()),
        (FilterError, lambda: client.jobs.list("stat:failed")),
        (ConfigError, lambda: client.submit("doubel")),
        (ConfigError, lambda: client.submit("idle", priority=12)),
        (ConfigError, lambda: client.jobs.list(limit=0)),
        (PayloadError, lambda: client.submit("double", {"number": "many"})),
        (PayloadError, lambda: client.submit("idle", {"number": object()})),
        (ConfigError, lambda: client.phases.pause("nowhere", "r")),
    ]
    for kind, call in cases:
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind, caught.value
        if hasattr(caught.value, "request_id"):
            assert f"(request {caught.value.request_id})" in str(caught.value)
    with pytest.raises(ConfigError, match=r"option = 'prio' .*one of after, .*; did you mean priority\?$"):
        client.submit("idle", prio=3)  # type: ignore[call-arg]
    with pytest.raises(IllegalTransitionError) as refused:
        done.cancel()
    assert (refused.value.job_id, refused.value.state) == (done.id, "completed")
    client.submit("idle", {"number": 1}, key="taken")
    with pytest.raises(KeyConflictError):
        client.submit("idle", {"number": 2}, key="taken")


def test_a_wait_ends_in_time(client: Client) -> None:
    job = client.submit("idle")
    for timeout in (0, 0.05, timedelta(seconds=1)):
        with pytest.raises(ResultTimeout) as caught:
            job.result(timeout)
        assert caught.value.state == "queued"


def test_a_token_is_needed_and_never_shown(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_SERVER", server.url)
    monkeypatch.setenv("WINDLASS_TOKEN", "token-of-a-viewer\n")
    with Client() as viewer:
        assert viewer.jobs.list(limit=1).jobs is not None
        with pytest.raises(NotAllowedError, match="role submit") as denied:
            viewer.submit("idle")
    with Client(token="secret-4711") as stranger, pytest.raises(AuthenticationError) as refused:
        stranger.jobs.list()
    assert refused.value.status == 401 and "token create" not in str(refused.value)
    for text in (
        repr(viewer),
        repr(denied.value),
        repr(refused.value),
        str(vars(refused.value)),
        repr(stranger),
    ):
        assert "token-of" not in text and "4711" not in text
    monkeypatch.delenv("WINDLASS_TOKEN")
    with (
        Client() as nobody,
        pytest.raises(AuthenticationError, match=r"WINDLASS_TOKEN.*windlass token create"),
    ):
        nobody.jobs.list()
    with pytest.raises(ConfigError) as wrong:
        Client(token="secret-4711\nX-Other: 1")
    assert "4711" not in repr(wrong.value)


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://jobs", "http://", "https://anna:secret@jobs.example.org"]
)
def test_an_address_that_cannot_work_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    with pytest.raises(ConfigError, match="server") as caught:
        Client(url)
    assert "secret" not in str(caught.value)


# ---------------------------------------------------------------------- repetitions


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.client.sending.FIRST_PAUSE", 0.001)


@pytest.mark.parametrize("fault", ["busy", "lost"])
def test_a_submit_is_repeated_with_one_key_and_makes_one_job(
    client: Client, server: Server, no_pause: None, fault: str
) -> None:
    server.faults.next += [fault, fault]
    job = client.submit("idle", correlation_id=f"again-{fault}")
    keys = server.faults.headers("Idempotency-Key")
    assert len(keys) == 3 and len(set(keys)) == 1
    assert [one.id for one in client.jobs.iterate(f"correlation:again-{fault}")] == [job.id]
    client.submit("idle")
    assert server.faults.headers("Idempotency-Key")[-1] != keys[0], "each submit has a key of its own"


def test_an_act_whose_response_was_lost_is_not_repeated(
    client: Client, server: Server, no_pause: None
) -> None:
    job = client.submit("idle")
    server.faults.next.append("lost")
    with pytest.raises(StoreUnreachableError, match="unknown"):
        job.cancel()
    assert client.jobs.get(job.id).state == "cancelled"


def test_a_server_that_stays_away_is_reported(client: Client, server: Server, no_pause: None) -> None:
    server.faults.next += ["busy"] * 5
    with pytest.raises(StoreUnreachableError):
        client.jobs.list()
    with (
        Client("http://127.0.0.1:9") as nowhere,
        pytest.raises(StoreUnreachableError, match=r"127\.0\.0\.1:9") as caught,
    ):
        nowhere.submit("idle")
    assert caught.value.is_unsent


def test_another_server_than_an_api_is_reported(client: Client, server: Server) -> None:
    server.faults.next.append("html")
    with pytest.raises(WindlassError, match="something else than the REST API"):
        client.jobs.list()


def test_one_client_serves_many_threads(client: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: client.submit("double", {"number": n}).result(60), range(16)))
    assert results == [2 * number for number in range(16)]
