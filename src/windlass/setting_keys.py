"""Every setting of an application: its key, its allowed values, its default and its purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from windlass import setting_values as values
from windlass.arguments.limits import MAX_BYTES, MAX_DEPTH, PAYLOAD_LIMITS
from windlass.locks.settings import TTL_MS
from windlass.principals.sealed_tokens import TokenKeys
from windlass.ranges import Duration, Range
from windlass.setting_values import Known
from windlass.settings import (
    LONGEST,
    PROCESSOR_RANGE,
    PROCESSORS,
    RANGES,
    RETENTION,
    SHORTEST,
    TIME_LIMIT,
    Settings,
)
from windlass.urls import ENCODED, FORMS

DEFAULT_URL = "sqlite:///windlass.db"
URL = "database.url"
OF_ONE_URL = ("database.pooled", "database.direct_url")
"""Settings that describe a URL: a URL that replaces another one sets them back."""
LOCK_KEYS = {
    "enabled": "background.redis_lock_enabled",
    "required": "background.redis_lock_required",
    "ttl_ms": "background.lock_ttl_ms",
    "fallback_ttl_ms": "background.lock_fallback_ttl_ms",
    "prefix": "background.lock_prefix",
    "url": "redis.url",
}


def _number(key: str, allowed: Range, default: float | None, about: str) -> Known:
    return Known(key, allowed.read, default, allowed.allowed, about)


def _worker_keys() -> Iterator[Known]:
    """Every number of ``Settings`` under ``worker.``, with its range."""
    usual = Settings()
    for name, allowed in RANGES.items():
        if (key := SETTING_KEYS[name]).startswith("worker."):
            yield _number(key, allowed, getattr(usual, name), "how instances run")


_NAMED_KEYS = {
    "max_concurrent_calls": "runtime.max_concurrent_calls",
    "chunk_size": "background.chunk.size",
    "chunk_attempts": "background.chunk.retry.attempts",
    "chunk_step": "background.chunk.retry.step_ms",
    "retention_completed": "retention.completed",
    "retention_failed": "retention.failed",
    "retention_cancelled": "retention.cancelled",
    "retention_archive": "retention.archive",
}
SETTING_KEYS = {
    name: _NAMED_KEYS.get(name, f"worker.{name}")
    for name in (*RANGES, "processors", "groups", "retention_archive")
}
"""The key of each setting of an instance that a file or a variable can set."""

_MILLISECONDS = Duration(1, LONGEST * 1000, "milliseconds")
_ALL = (
    Known(URL, values.database_url, DEFAULT_URL, f"{FORMS}, {ENCODED}", "where jobs are kept", is_secret=True),
    Known("database.auto_migrate", values.optional(values.flag), None, "true or false, or none: true for SQLite, false for PostgreSQL",
          "whether opening the database brings its tables up to date"),
    _number("database.connect_timeout", Duration(0.1, LONGEST, "seconds"), 5.0,
            "how long a call waits for a connection to PostgreSQL before it raises store_unreachable"),
    Known("database.pooled", values.flag, False, "true or false", "whether the URL leads to a pooler of PostgreSQL in transaction mode"),
    Known("database.direct_url", values.optional(values.postgres_url), None, f"postgresql://user@host:port/database, {ENCODED}; or none",
          "the way around the pooler, for notifications and migrations", is_secret=True),
    _number("database.max_connections", Range(1, 10_000, is_whole=True), 8, "connections of one process to PostgreSQL for its own statements"),
    _number("database.busy_timeout", Duration(0, LONGEST, "seconds"), 30.0, "how long a call waits for the write lock of SQLite"),
    _number("payload.max_bytes", Range(1, MAX_BYTES, "bytes", is_whole=True), PAYLOAD_LIMITS.args.max_bytes, "the largest arguments of a job, as JSON"),
    _number("payload.max_result_bytes", Range(1, MAX_BYTES, "bytes", is_whole=True), PAYLOAD_LIMITS.result.max_bytes, "the largest result or output, as JSON"),
    _number("payload.max_depth", Range(1, MAX_DEPTH, is_whole=True), PAYLOAD_LIMITS.args.max_depth, "nested lists and objects in arguments, results and outputs"),
    Known("redis.url", values.optional(values.text), None, "a redis: URL, or none", "where idempotency locks are kept", is_secret=True),
    _number("background.retry.attempts", Range(1, 32_000, is_whole=True), 3, "attempts of a job, the first included"),
    _number("background.retry.base_delay_ms", _MILLISECONDS, 1000.0, "the first wait after a failure"),
    _number("background.retry.max_delay_ms", _MILLISECONDS, 300_000.0, "the longest wait"),
    _number("background.retry.jitter_ratio", Range(0, 1), 0.2, "how far waits are spread"),
    _number("background.timeout_ms", replace(_MILLISECONDS, or_none="no limit"), TIME_LIMIT * 1000,
            "the time limit of phases without their own: the longest silence of an attempt"),
    _number("background.total_timeout_ms", replace(_MILLISECONDS, or_none="no limit"), None,
            "the total time limit of phases without their own: the longest attempt, whatever progress it makes"),
    _number("background.processors", PROCESSOR_RANGE, PROCESSORS,
            "processors of phases without their own number"),
    _number("background.chunk.size", RANGES["chunk_size"], 1000, "records per chunk of loops without their own size"),
    _number("background.chunk.retry.attempts", RANGES["chunk_attempts"], 3, "tries of a chunk without a policy of its own"),
    _number("background.chunk.retry.step_ms", _MILLISECONDS, 1000.0, "the wait of such a chunk grows by this after each try"),
    _number("background.lock_ttl_ms", TTL_MS, 300_000, "how long a lock lives unless it is renewed"),
    _number("background.lock_fallback_ttl_ms", TTL_MS, 60_000,
            "the same for the lock in memory while Redis is away; at most lock_ttl_ms"),
    Known("background.lock_prefix", values.text, "bg:req:", "1 to 200 characters without spaces", "what a lock's key begins with; the request's id follows"),
    Known("background.redis_lock_enabled", values.flag, True, "true or false", "whether locks are kept in Redis",
          aliases=("BACKGROUND_REDIS_LOCK_ENABLED",)),
    Known("background.redis_lock_required", values.flag, False, "true or false", "whether no request and no job of a worker runs without a lock in Redis",
          aliases=("BACKGROUND_REDIS_LOCK_REQUIRED",)),
    Known("principal.keys", values.optional(TokenKeys.parse), None,
          "ids with keys of 32 bytes in base64, the one that seals first: new:BASE64,old:BASE64",
          "keys of the tokens that jobs keep; the first one seals, all of them open", is_secret=True, is_hidden=True),
    Known("django.enqueue_in_atomic", values.one_of("warn", "error", "defer", "allow"), "warn", "warn, error, defer or allow",
          "what enqueue does inside transaction.atomic() of Django: it warns, raises, or stores the job with the commit"),
    _number("runtime.max_concurrent_calls", RANGES["max_concurrent_calls"], None,
            "jobs one instance runs at once"),
    *(_number(f"retention.{state}", RETENTION, None, f"how long {state} jobs are kept; workers prune older ones")
      for state in ("completed", "failed", "cancelled")),
    Known("retention.archive", values.optional(values.text), None, "the name of a file, or none",
          "where workers append jobs, as lines of JSON, before they prune them"),
    Known("worker.profile", values.one_of("default", "gentle"), "default", "default or gentle", "the defaults of the other settings"),
    Known("worker.processors", values.counts, {}, "whole numbers by phase: a table, or welcome=4,report=2",
          "processors of single phases in this instance"),
    Known("worker.groups", values.groups, {}, "lists of phases by name: a table, or heavy=report* sites,light=welcome",
          "names for sets of phases and kinds, for windlass worker --phase"),
    Known("worker.version", values.optional(values.text), None, "a text, such as a commit, or none",
          "the version of the code; a start of a worker with another version than before is marked on charts"),
    *_worker_keys(),
    Known("api.host", values.text, "127.0.0.1", "a host name or an address", "where windlass serve listens"),
    _number("api.port", Range(0, 65_535, is_whole=True), 8080, "the port of windlass serve; 0 is any free one"),
    Known("api.hosts", values.names, (), "host names in a list, or separated by commas", "the names that a request may have in its header Host; none: any, in an application of your own"),
    Known("api.origins", values.names, (), "origins in a list, or separated by commas", "the origins whose pages may call the API from a browser (CORS)"),
    _number("api.max_body_bytes", Range(1024, MAX_BYTES, "bytes", is_whole=True), 1024**2, "the largest body of a request to the API"),
    _number("api.max_batch_bytes", Range(1024, MAX_BYTES, "bytes", is_whole=True), 16 * 1024**2, "the largest body of a request that submits many jobs"),
    _number("api.max_depth", Range(8, MAX_DEPTH, is_whole=True), 100, "nested lists and objects in a body"),
    _number("api.max_jobs", Range(1, 1_000_000, is_whole=True), 10_000, "jobs that one request may submit"),
    _number("api.body_timeout", Duration(SHORTEST, LONGEST, "seconds"), 20.0, "how long a client may take to send a body"),
    _number("api.read_timeout", Duration(SHORTEST, LONGEST, "seconds"), 10.0, "how long one statement of a request that reads may take"),
    _number("api.max_wait", Duration(0, 3600, "seconds"), 60.0, "how long Prefer: wait may wait for the end of a job"),
    _number("api.waits", Range(1, 1_000_000, is_whole=True), 50, "requests of one client that may wait for jobs at once"),
    Known("api.no_auth", values.flag, False, "true or false", "whether requests from this machine need no credentials; beyond loopback it is refused"),
    Known("api.session_secret", values.optional(values.secret), None, "32 characters or more, or none: a new one at each start",
          "signs the cookies of sessions; servers behind one address need the same", is_secret=True, is_hidden=True),
    _number("api.session_time", Duration(60, 30 * 86_400, "seconds"), 43_200.0, "how long a session lasts"),
    Known("api.jwks", values.optional(values.text), None, "a file, an https: URL, or none", "the keys that verify JWTs, as a JWKS; none: JWTs are not accepted"),
    Known("api.jwt_algorithms", values.names, ("RS256", "ES256"), "algorithms in a list, or separated by commas", "the algorithms of JWTs: HS256, RS256, PS256, ES256, EdDSA and their longer forms"),
    Known("api.jwt_issuer", values.names, (), "names in a list, or separated by commas", "the issuers whose JWTs are accepted"),
    Known("api.jwt_audience", values.names, (), "names in a list, or separated by commas", "the audiences that a JWT must name one of"),
    _number("api.jwt_leeway", Duration(0, 60, "seconds"), 30.0, "how far clocks may differ when the times of a JWT are checked"),
    Known("api.jwt_subject", values.text, "sub", "the path of a claim", "the claim that is the subject"),
    Known("api.jwt_tenant", values.optional(values.text), None, "the path of a claim, or none", "the claim that is the tenant; a JWT without it is refused"),
    Known("api.jwt_roles", values.names, ("roles",), "paths of claims in a list, or separated by commas", "the claims that have roles, such as windlass:view"),
    _number("api.streams", Range(1, 1_000_000, is_whole=True), 20, "streams of events that one client may have open at once"),
)  # fmt: skip
KNOWN: dict[str, Known] = {known.key: known for known in _ALL}
