"""This process as an instance in the database, and its current holder."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NoReturn

from windlass.errors import WindlassError
from windlass.features import Store
from windlass.observe import events
from windlass.store.jobs.holder import Holder


class Instance:
    """Joins the database and has the holder that claims and records for it.

    A lost lease replaces the holder, so the parts of an engine are given the instance and read ``holder`` each time.
    """

    holder: Holder
    """The current holder; there is none before the start."""

    def __init__(self, store: Store, lease: float, info: Mapping[str, Any] | None = None) -> None:
        self.store = store
        self.info = info or {}
        """Facts about this process that other processes can read."""
        self._lease = timedelta(seconds=lease)

    def __getattr__(self, name: str) -> NoReturn:
        if name == "holder":
            raise WindlassError("this instance has not been started")
        raise AttributeError(f"Instance has no attribute {name!r}")

    @property
    def id(self) -> str:
        """The id of the instance; empty before it has joined."""
        return self.holder.id if "holder" in self.__dict__ else ""

    def join(self) -> None:
        """Become an instance, or a new one after the lease was lost."""
        self.holder = self.store.join(lease=self._lease, info=self.info)

    def leave(self) -> None:
        """Leave the database; if it cannot be reached, other instances remove this one later."""
        try:
            self.store.boards.drop(self.id)
            self.holder.leave()
        except WindlassError as error:
            events.store_unreachable(error)
