"""The part of a context that has the headers of its job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from windlass.model import Flag, Lease, has_flag
from windlass.store.attempt_store import AttemptStore


class Carried:
    """The headers that are carried with a job."""

    _lease: Lease
    _store: AttemptStore
    _headers: Mapping[str, str] | None = None
    """The headers, once they were read; the class's own value until then."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that were submitted with this job. Of a job that has some, the first access is a read of the database."""
        if self._headers is None:
            has_some = has_flag(self._lease.flags, Flag.HEADERS)
            self._headers = self._store.headers_of(self._lease) if has_some else {}
        return self._headers

    async def headers_async(self) -> Mapping[str, str]:
        """``headers`` without blocking the event loop."""
        return await asyncio.to_thread(lambda: self.headers)
