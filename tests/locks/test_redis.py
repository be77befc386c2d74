"""Locks as Redis sees them: the key, the value, the TTL, the commands; and what others may have put there."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.locks.conftest import Opener
from tests.locks.server import LostReply, OwnValkey, patient, take
from tests.waiting import PATIENCE, eventually
from windlass.clock import ManualClock
from windlass.errors import ConfigError, LockUnavailableError
from windlass.locks import LockSettings, Reason, open_locks
from windlass.locks.keyed import KeyLocks
from windlass.locks.redis import RedisKeys, connect

pytestmark = pytest.mark.timing

REQUEST = "0190-a"
KEY = "bg:req:0190-a"


@pytest.fixture
def seen(valkey_url: str) -> Iterator[Any]:
    """A look from outside."""
    with redis.Redis.from_url(valkey_url, decode_responses=True) as client:
        yield client


def _locks(url: str, worker: str = "worker-1", **changes: Any) -> KeyLocks:
    return KeyLocks(
        RedisKeys(connect(url)), LockSettings(url=url, **changes), worker=worker, is_shared=True, clock=ManualClock()
    )  # fmt: skip


def test_key_value_and_ttl(opened_locks: Opener, valkey_url: str, seen: Any) -> None:
    locks = opened_locks(valkey_url, worker="0190-instance")
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    with locks.acquire(REQUEST):
        value = json.loads(seen.get(KEY))
        assert set(value) == {"worker", "token", "at"}
        assert value["worker"] == "0190-instance"
        assert before <= datetime.fromisoformat(value["at"]) <= datetime.now(UTC)
        assert len(value["token"]) == 32
        assert 200_000 < seen.pttl(KEY) <= 300_000
    assert seen.keys("*") == []
    with locks.acquire(REQUEST):
        assert json.loads(seen.get(KEY))["token"] != value["token"]


def test_prefix_and_ttl_are_settings(opened_locks: Opener, valkey_url: str, seen: Any) -> None:
    with opened_locks(valkey_url, prefix="acme:bg:req:", ttl_ms=7000).acquire("7"):
        assert seen.keys("*") == ["acme:bg:req:7"]
        assert 0 < seen.pttl("acme:bg:req:7") <= 7000


def test_the_commands(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """SET NX PX and two scripts; nothing that looks at other keys or empties the server."""
    with own_valkey.client() as client, client.monitor() as monitor:
        locks = opened_locks(own_valkey.url)
        with take(locks, REQUEST) as held:
            assert held.renew()
            assert not opened_locks(own_valkey.url).acquire(REQUEST)
        client.ping()
        commands = []
        for told in monitor.listen():
            commands.append(told["command"].split(" ")[0].upper())
            if told["command"].upper() == "PING":
                break
    on_connecting = {"AUTH", "CLIENT", "SELECT", "PING"}
    assert set(commands) - on_connecting == {
        "SET",
        "GET",
        "EVAL",
        "PEXPIRE",
        "DEL",
    }  # what scripts call is shown, too
    assert commands.count("SET") == 2 and commands.count("EVAL") == 2


def test_the_rights_that_are_enough(own_valkey: OwnValkey, opened_locks: Opener) -> None:
    """As docs/guides/locks.md says."""
    rights = "~bg:req:* +set +get +eval +pexpire +del"
    assert rights in (Path(__file__).parents[2] / "docs" / "guides" / "locks.md").read_text("utf-8")
    with own_valkey.client() as client:
        client.execute_command("ACL", "SETUSER", "locker", "on", ">hunter2", *rights.split())
    locks = opened_locks(patient(f"redis://locker:hunter2@127.0.0.1:{own_valkey.port}/0"))
    with take(locks, REQUEST) as held:
        assert held.is_shared and held.renew() and not locks.acquire(REQUEST)
    own_valkey.kill()
    assert take(locks, REQUEST).release() and locks.state().is_degraded
    own_valkey.start()
    with own_valkey.client() as client:
        client.execute_command("ACL", "SETUSER", "locker", "on", ">hunter2", *rights.split())
    eventually(lambda: not locks.state().is_degraded)  # the probe needs no more than that, either


def test_only_the_owner_releases_and_renews(valkey_url: str, seen: Any) -> None:
    held = take(_locks(valkey_url), REQUEST)
    seen.set(KEY, "another's", px=50_000)
    assert held and not held.renew() and held.is_lost
    assert not held.release()
    assert seen.get(KEY) == "another's" and seen.pttl(KEY) > 40_000


def test_a_lock_that_was_flushed_is_lost(valkey_url: str, seen: Any) -> None:
    held = take(_locks(valkey_url), REQUEST)
    seen.delete(KEY)
    assert held and not held.is_lost  # it cannot know yet
    assert not held.renew() and held.is_lost
    assert seen.exists(KEY) == 0  # and is not put back


@pytest.mark.parametrize(
    "put",
    [
        lambda seen: seen.set(KEY, "not json"),
        lambda seen: seen.set(KEY, '{"worker": 7, "at": "yesterday"}'),
        lambda seen: seen.set(KEY, "[" * 100_000),
        lambda seen: seen.set(KEY, b"\xff\xfe"),
        lambda seen: seen.rpush(KEY, "a list"),
    ],
)
@pytest.mark.parametrize("decode", [True, False])
def test_whatever_stands_there_is_anothers(
    valkey_url: str, seen: Any, put: Callable[[Any], object], decode: bool
) -> None:
    put(seen)
    client = redis.Redis.from_url(valkey_url, decode_responses=decode, socket_timeout=PATIENCE)
    refused = KeyLocks(RedisKeys(client), LockSettings(), worker="w", is_shared=True).acquire(REQUEST)
    client.close()
    assert not refused and refused.reason is Reason.HELD
    assert (refused.holder, refused.since) == (None, None)
    assert seen.exists(KEY)


def test_another_type_under_our_key_is_a_lost_lock(valkey_url: str, seen: Any) -> None:
    held = take(_locks(valkey_url), REQUEST)
    seen.delete(KEY)
    seen.rpush(KEY, "a list")
    assert held and not held.renew() and held.is_lost and not held.release()
    assert seen.llen(KEY) == 1


def test_a_client_of_your_own(valkey_url: str, seen: Any) -> None:
    for decode in (True, False):
        client = redis.Redis.from_url(valkey_url, decode_responses=decode, socket_timeout=PATIENCE)
        with open_locks(worker="w", client=client) as locks:
            held = take(locks, REQUEST)
            assert held and held.is_shared and seen.exists(KEY)
            assert held.renew() and held.release() and not seen.exists(KEY)
        assert client.ping()  # left open
        client.close()


def test_a_client_that_could_hang_is_refused(valkey_url: str) -> None:
    client = redis.Redis.from_url(valkey_url.partition("?")[0], socket_timeout=None)
    with pytest.raises(ConfigError, match="without socket_timeout"):
        open_locks(worker="w", client=client)
    client.close()


# ---------------------------------------------------------------------- what networks do


def test_a_set_whose_reply_was_lost_is_found(own_valkey: OwnValkey) -> None:
    with LostReply(own_valkey, KEY.encode()) as proxy, own_valkey.client() as seen:
        held = take(_locks(proxy.url), REQUEST)
        assert proxy.lost == 1
        assert held and not held.is_lost and held.renew()
        assert not _locks(own_valkey.url, "worker-2").acquire(REQUEST)
        assert held.release() and seen.exists(KEY) == 0


def test_a_set_whose_reply_was_lost_while_another_has_it(own_valkey: OwnValkey) -> None:
    held = take(_locks(own_valkey.url, "worker-2"), REQUEST)
    with LostReply(own_valkey, KEY.encode()) as proxy:
        refused = _locks(proxy.url).acquire(REQUEST)
        assert proxy.lost == 1
    assert not refused and (refused.reason, refused.holder) == (Reason.HELD, "worker-2")
    assert held and held.renew()


def test_nobody_answers_is_not_held_by_another(own_valkey: OwnValkey) -> None:
    held = take(_locks(own_valkey.url), REQUEST)
    own_valkey.kill()
    refused = _locks(own_valkey.url).acquire("0190-b")
    assert not refused and refused.reason is Reason.UNREACHABLE and refused.holder is None
    assert "ConnectionError" in str(refused.error)
    # Renewing fails, but until the TTL is over the lock is not known to be lost; releasing fails quietly.
    assert held and held.renew() and not held.is_lost
    assert not held.release()


def test_a_wrong_password_is_told_without_it(own_valkey: OwnValkey) -> None:
    url = f"redis://:hunter2@127.0.0.1:{own_valkey.port}/0"
    refused = _locks(url).acquire(REQUEST)
    assert not refused and refused.reason is Reason.UNREACHABLE
    assert "Authentication" in str(refused.error) and "hunter2" not in str(refused.error)


def test_a_restart_between_two_calls_is_no_outage(own_valkey: OwnValkey) -> None:
    """The pooled connection is dead, which is found before it is used."""
    locks = _locks(own_valkey.url)
    with locks.acquire(REQUEST) as held:
        assert held
    own_valkey.kill()
    own_valkey.start()
    with locks.acquire(REQUEST) as held:
        assert held


def test_calls_end_within_their_time_outs(own_valkey: OwnValkey) -> None:
    """A hundred threads ask a server that stands still; each is told after a second or so, and none needs the others' connection."""
    keys = RedisKeys(connect(own_valkey.hasty_url))
    answers: list[str] = []

    def ask(number: int) -> None:
        try:
            keys.take(f"key-{number}", "mine", 1000)
        except LockUnavailableError as error:
            answers.append(error.problem)

    with own_valkey.frozen():
        begun = time.monotonic()
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert time.monotonic() - begun < 20, "one after the other they would take longer"
    assert len(answers) == 100
    assert {answer.partition(":")[0] for answer in answers} == {"TimeoutError"}
    keys.close()
