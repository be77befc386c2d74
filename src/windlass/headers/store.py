"""Headers of jobs: checked, stored with a job, read by its attempts.

The flag on the job's row says that there are headers, so that jobs without them cost no read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from windlass.arguments.encoding import encode
from windlass.arguments.limits import Limits
from windlass.errors import ConfigError
from windlass.model import Flag, Lease, has_flag
from windlass.store.database import Database, Row
from windlass.store.ids import is_id
from windlass.store.validators import MAX_LABEL, is_label

MOST: Final = 64
LIMITS: Final = Limits(max_bytes=16 * 1024, max_depth=1)


def headers_json(given: object) -> str:
    """Headers as JSON text; refuses what is no mapping from texts to texts, and what is too large."""
    if not isinstance(given, Mapping):
        raise ConfigError(
            "headers", type(given).__name__, "a mapping of texts, for example {'tenant': 'acme'}"
        )
    if len(given) > MOST:
        raise ConfigError("headers", f"{len(given)} of them", f"at most {MOST}")
    for name, value in given.items():
        if not is_label(name):
            raise ConfigError("headers", name, f"named by 1 to {MAX_LABEL} printable characters")
        if not isinstance(value, str):  # the value may be a secret
            raise ConfigError(f"headers[{name!r}]", type(value).__name__, "a text")
    return encode(dict(given), what="headers", limits=LIMITS)


class CheckedHeaders(dict[str, str]):
    """Headers that can be stored, with their JSON text, so that they are checked and encoded once."""

    __slots__ = ("text",)

    def __init__(self, given: Mapping[str, str]) -> None:
        self.text = headers_json(given)
        super().__init__(given)


def read_all(run: Callable[..., list[Row]], job_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """The headers of jobs, those that have some; ``run`` is a transaction's ``run``, or a database's ``read``, which waits for no writer."""
    if not job_ids:
        return {}
    return {job: json.loads(text) for job, text in run("headers.list", ids=sorted(job_ids))}


class Headers:
    """Reads the headers of jobs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, job_id: str) -> dict[str, str]:
        """The headers of a job; empty if it has none."""
        return self.list([job_id]).get(job_id, {})

    def of(self, lease: Lease) -> dict[str, str]:
        """The headers of a held job; read only if its row says that there are some."""
        return self.get(lease.id) if has_flag(lease.flags, Flag.HEADERS) else {}

    def list(self, job_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """The headers of several jobs, those that have some."""
        return read_all(self._db.read, [job_id for job_id in job_ids if is_id(job_id)])
