"""The store of a child process: opened when a job first uses it, kept for the next ones.

The instance holds the lease; a child only writes under it, by id and token.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from windlass.errors import WindlassError
from windlass.features import Store, open_store
from windlass.store.jobs.held_job import HeldJob


class ChildStore:
    """Opens the store with these options; ``lease`` is the seconds of a lease of the instance."""

    def __init__(self, options: Mapping[str, Any], lease: float) -> None:
        self.options = dict(options)
        self._lease = timedelta(seconds=lease)
        self._lock = threading.Lock()
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        with self._lock:
            if self._store is None:
                if "url" not in self.options:
                    raise WindlassError("this process has no database; give the executor the store's URL")
                self._store = open_store(**self.options)
            return self._store

    @property
    def holder(self) -> HeldJob:
        """Writes of jobs that the instance holds."""
        return self.store.writes(self._lease)

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
