"""Lock settings: defaults as required, and mistakes named with what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import ConfigError
from windlass.locks import LockSettings, open_locks


def test_the_defaults() -> None:
    settings = LockSettings()
    assert (settings.enabled, settings.required, settings.url) == (True, False, None)
    assert (settings.ttl_ms, settings.ttl) == (300_000, 300.0)
    assert settings.key("7") == "bg:req:7"


def test_a_tenant_has_keys_of_its_own() -> None:
    assert LockSettings().changed(prefix="acme:bg:req:").key("7") == "acme:bg:req:7"


@pytest.mark.parametrize(
    ("changes", "key", "allowed"),
    [
        ({"ttl_ms": 999}, "ttl_ms", "a whole number of milliseconds from 1,000 to 86,400,000"),
        ({"ttl_ms": 86_400_001}, "ttl_ms", "a whole number"),
        ({"ttl_ms": 5000.0}, "ttl_ms", "a whole number"),
        ({"ttl_ms": True}, "ttl_ms", "a whole number"),
        ({"prefix": ""}, "prefix", "without spaces"),
        ({"prefix": "bg req:"}, "prefix", "without spaces"),
        ({"prefix": "bg:\n"}, "prefix", "without spaces"),
        ({"prefix": 7}, "prefix", "without spaces"),
        ({"prefix": "x" * 201}, "prefix", "1 to 200"),
        ({"enabled": "false"}, "enabled", "true or false"),
        ({"required": 1}, "required", "true or false"),
        ({"required": True, "enabled": False}, "required", "there is no Redis to require"),
        ({"url": "http://127.0.0.1"}, "url", "redis://"),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], key: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        LockSettings(**changes)
    assert caught.value.key == key and allowed in caught.value.reason


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="one of enabled, fallback_ttl_ms, prefix, required, ttl_ms, url"):
        LockSettings().changed(ttl=5)


@pytest.mark.parametrize("request_id", ["", "x" * 513, 7, None])
def test_an_id_is_a_text(request_id: Any) -> None:
    with pytest.raises(ConfigError, match="request_id"):
        LockSettings().key(request_id)


def test_redis_cannot_be_required_without_an_address() -> None:
    with pytest.raises(ConfigError) as caught:
        open_locks(LockSettings(required=True), worker="w")
    text = str(caught.value)
    assert "redis.url is not set" in text and "WINDLASS_REDIS_URL" in text
    assert "or set background.redis_lock_required to false" in text


def test_no_password_is_shown() -> None:
    settings = LockSettings(url="redis://:hunter2@127.0.0.1:6379/0")
    assert "hunter2" not in repr(settings)
    with pytest.raises(ConfigError) as caught:
        LockSettings(url="http://user:hunter2@127.0.0.1/")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        open_locks(LockSettings(url="redis://:hunter2@127.0.0.1:6379/0?socket_timeout=soon"), worker="w")
    assert "hunter2" not in str(caught.value)
