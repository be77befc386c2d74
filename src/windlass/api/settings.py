"""The settings of the API: the keys ``api.*`` of windlass.toml, of the environment and of code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from windlass.config import Config
from windlass.setting_keys import KNOWN
from windlass.setting_values import Secret

PREFIX = "api."


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """What the API accepts, and how much of it. ``api.max_depth`` in windlass.toml is ``max_depth`` here."""

    host: str = "127.0.0.1"
    port: int = 8080
    hosts: Sequence[str] = ()
    """The names that a request may have in its header Host; empty: any name."""
    origins: Sequence[str] = ()
    """The origins whose pages may call the API from a browser (CORS); empty: none."""
    no_auth: bool = False
    """Whether requests from this machine need no credentials."""
    session_secret: Secret | str | None = field(default=None, repr=False)
    """Signs the cookies of sessions; None makes a new one at each start."""
    session_time: float = 43_200.0
    """Seconds that a session lasts."""
    jwks: str | None = None
    """The keys that verify JWTs: a file or an https URL; without them JWTs are not accepted."""
    jwt_algorithms: Sequence[str] = ("RS256", "ES256")
    jwt_issuer: Sequence[str] = ()
    jwt_audience: Sequence[str] = ()
    jwt_leeway: float = 30.0
    jwt_subject: str = "sub"
    jwt_tenant: str | None = None
    jwt_roles: Sequence[str] = ("roles",)
    max_body_bytes: int = 1024**2
    max_batch_bytes: int = 16 * 1024**2
    """The size of a body with many jobs (NDJSON)."""
    max_depth: int = 100
    """How deep the JSON of a body may be nested."""
    max_jobs: int = 10_000
    """How many jobs one request may submit."""
    body_timeout: float = 20.0
    """Seconds that a client has to send its body."""
    read_timeout: float = 10.0
    """Seconds that one statement of a request that reads may take in the database."""
    max_wait: float = 60.0
    """Seconds that ``Prefer: wait=N`` may wait for the end of a job."""
    waits: int = 50
    """Requests of one client that may wait for a job at once."""
    streams: int = 20
    """Streams of events that one client may have open at once."""

    def __post_init__(self) -> None:
        for item in fields(self):
            known = KNOWN[f"{PREFIX}{item.name}"]
            object.__setattr__(self, item.name, known.checked(getattr(self, item.name)))

    @classmethod
    def of(cls, config: Config) -> Self:
        """The settings of an app."""
        found: dict[str, Any] = {item.name: config[f"{PREFIX}{item.name}"] for item in fields(cls)}
        return cls(**found)
