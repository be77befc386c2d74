"""Locks in Redis or Valkey: ``SET key value NX PX ttl``; renewed, replaced and removed by scripts that compare the value first.

Time-outs are short and there are no automatic retries, so that an outage is seen at once. There is one exception: if the reply of a SET
or of a replacement was lost, the key is read to find out whether it took effect.

redis-py's own ``Lock`` uses the same three commands, but the holder of a lock and its time would have to be read separately, and its
scripts are kept on the server: after a restart one call fails, and another loads the script.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from windlass.arguments.json_checks import explain
from windlass.errors import ConfigError, LockUnavailableError
from windlass.urls import ENCODED, without_secrets, wrong_url

TIMEOUT = 0.5
MOST_CONNECTIONS = 10_000
"""Enough for all threads at once: a wait for a connection would be handled as an outage."""

RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
REPLACE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1 end return 0"
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def connect(url: str) -> redis.Redis:
    """Return a client with short time-outs. Nothing is sent yet; options in the URL (``?socket_timeout=1``) override them."""
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
            max_connections=MOST_CONNECTIONS,
            protocol=2,  # with 3, redis-py does not notice that a pooled connection was closed by a restart
        )
    except (ValueError, TypeError):  # whose text may quote a part of the password
        raise ConfigError("url", wrong_url(url), f"a URL that redis-py understands, {ENCODED}") from None


class RedisKeys:
    """Keys on one server. Your own client must have a ``socket_timeout``; otherwise a server that hangs would block the caller."""

    def __init__(self, client: redis.Redis) -> None:
        pool = getattr(client, "connection_pool", None)
        if pool is not None and pool.connection_kwargs.get("socket_timeout") is None:
            raise ConfigError(
                "redis", "a client without socket_timeout", "a client with one, for example 0.5 s"
            )
        self._client: Any = client

    def take(self, key: str, value: str, ttl_ms: int) -> str | None:
        for _ in range(3):
            try:
                if self._client.set(key, value, nx=True, px=ttl_ms):
                    return None
                found = self._get(key)
            except (RedisError, OSError) as error:
                found = self._read_back(key)  # perhaps only the reply was lost
                if found is None:
                    raise _unavailable(key, error) from error
            if found is not None:
                return None if found == value else found
        return ""  # it changes often: other processes are faster

    def extend(self, key: str, value: str, ttl_ms: int) -> bool:
        return self._compare(RENEW, key, value, ttl_ms)

    def replace(self, key: str, old: str, value: str, ttl_ms: int) -> bool:
        try:
            return self._compare(REPLACE, key, old, value, ttl_ms)
        except LockUnavailableError:
            if self._read_back(key) == value:
                return True
            raise

    def drop(self, key: str, value: str) -> bool:
        return self._compare(RELEASE, key, value)

    def close(self) -> None:
        self._client.close()

    def _compare(self, script: str, key: str, *arguments: object) -> bool:
        try:
            return bool(self._client.eval(script, 1, key, *arguments))
        except ResponseError as error:
            if "WRONGTYPE" in str(error):  # the key has a value of another type
                return False
            raise _unavailable(key, error) from error
        except (RedisError, OSError) as error:
            raise _unavailable(key, error) from error

    def _get(self, key: str) -> str | None:
        """The value of a key; "" if it is not text."""
        try:
            found = self._client.get(key)
        except UnicodeDecodeError:  # by a client with decode_responses
            return ""
        except ResponseError as error:
            if "WRONGTYPE" in str(error):
                return ""
            raise
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    def _read_back(self, key: str) -> str | None:
        try:
            return self._get(key)
        except (RedisError, OSError):
            return None


def _unavailable(key: str, error: Exception) -> LockUnavailableError:
    return LockUnavailableError(f"the key {key}", without_secrets(explain(error)))
