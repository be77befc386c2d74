"""Checks the settings, and the Redis that they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass.config import Config
from windlass.control.doctor.findings import Finding
from windlass.environment import ignored
from windlass.errors import ConfigError
from windlass.urls import dialect_of, shown_url

SEE = "windlass config show lists every setting with its value and its origin"


def of_error(error: ConfigError) -> Finding:
    """The finding for a setting that cannot work."""
    return Finding.error("settings.invalid", error.message, f"Correct the setting; {SEE}.")


def check_settings(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Settings that cannot work, or that have no effect."""
    try:
        config.direct_url  # noqa: B018  every other setting was checked when it was read
    except ConfigError as error:
        yield of_error(error)
    if config["database.pooled"] and dialect_of(config.url) == "sqlite":
        yield Finding.warning(
            "settings.pooled",
            f"database.pooled is true ({config.origin('database.pooled')}), and the database is a SQLite file, which has no pooler.",
            "Remove database.pooled.",
        )
    for variable in ignored(environ):
        yield Finding.note(
            "settings.ignored",
            f"The variable {variable} begins with WINDLASS_ and is no setting; it is ignored.",
            f"Correct its name, or remove the variable; {SEE}.",
        )


def check_redis(config: Config) -> Iterator[Finding]:
    """Whether the Redis of the locks can be reached, where one is configured."""
    locks = config.locks
    if locks.required and locks.url is None:
        yield Finding.error(
            "redis.missing",
            "background.redis_lock_required is true, and no redis.url is set: no request and no job of a worker runs.",
            "Set redis.url, or background.redis_lock_required = false.",
        )
    if not locks.enabled or locks.url is None:
        return
    severity = Finding.error if locks.required else Finding.warning
    effect = "no job of a worker starts" if locks.required else "locks are kept in the memory of each process"
    try:
        from redis.exceptions import RedisError

        from windlass.locks.redis import connect
    except ModuleNotFoundError:
        yield Finding.error(
            "redis.driver",
            "redis.url is set, and the driver of Redis is not installed.",
            "pip install 'windlass[redis]'",
        )
        return
    try:
        client = connect(locks.url)
        try:
            client.ping()
        finally:
            client.close()
    except ConfigError as error:
        yield of_error(error)
    except (RedisError, OSError) as error:
        yield severity(
            "redis.unreachable",
            f"Redis at {shown_url(locks.url)} cannot be reached ({type(error).__name__}: {error}); {effect}.",
            "Start Redis, or correct redis.url and the network between this machine and Redis.",
        )
