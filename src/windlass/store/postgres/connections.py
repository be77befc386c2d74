"""Keeps the connections to one PostgreSQL database: a pool for each need, and what is done to a new connection."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from weakref import WeakSet

import psycopg
from psycopg import IsolationLevel
from psycopg import errors as pg
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from windlass import forking
from windlass.errors import StoreInterruptedError, StoreUnreachableError
from windlass.store.database import BEATS
from windlass.store.postgres import sessions
from windlass.store.postgres.errors import translated
from windlass.store.postgres.listener import KEEPALIVE
from windlass.store.postgres.transaction import read_as_text

RECONNECT = 1.0
"""A pool doubles its pauses between attempts to connect, and after a minute's outage would not try for another minute.
Given up after a second and begun anew (``_reconnect``), the pauses stay short."""

Pool = ConnectionPool[psycopg.Connection]


class Connections:
    """The connections of one store: ``verbs`` for everything that has no pool of its own, ``effects`` for handlers' transactions,
    ``beats`` for heartbeats, and ``steps`` once an engine runs. They are opened by ``open``.

    With separate pools one need cannot starve another: handlers that keep all effect transactions open must not stop the recorder,
    and nothing may stop the heartbeat or the engine's steps.
    """

    def __init__(self, url: str, *, most: int, timeout: float, pooled: bool) -> None:
        self._url, self._most, self._timeout, self._pooled = url, most, timeout, pooled
        self._is_closed = False
        self._known: WeakSet[psycopg.Connection] = WeakSet()
        self._make_pools()
        forking.watch(self)

    def _make_pools(self) -> None:
        self.verbs = self._make_pool("verbs", 1, self._most, self._configure)
        self.effects = self._make_pool("effects", 0, self._most, self._configure_effect)
        self.beats = self._make_pool("beats", 0, 1, self._configure)
        self.steps: Pool | None = None
        self._own = threading.local()
        self._waiters = threading.BoundedSemaphore(max(1, self._most // 2))
        self._is_open = False
        self._opening = threading.Lock()
        self._checked: set[Pool] = set()

    @property
    def _pools(self) -> Sequence[ConnectionPool[psycopg.Connection]]:
        known = (self.beats, self.effects, self.verbs, self.steps)
        return [pool for pool in known if pool is not None]

    def open(self) -> None:
        """Open the pools; the first connection is made in the background."""
        with self._opening:
            for pool in self._pools:
                pool.open()
            self._is_open = True

    def after_fork_in_child(self) -> None:
        """Begin anew with the first call: the pools have no threads here, and their connections are the parent's. Those are made unusable
        in this process, for all their users: on a shared connection both processes would talk to the server."""
        for pool in self._pools:
            forking.abandon(pool)
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for connection in self._known:
                forking.abandon(connection)
                with suppress(psycopg.Error, OSError):  # closed
                    os.dup2(nowhere, connection.fileno(), inheritable=False)
            os.close(nowhere)
        finally:
            self._known = WeakSet()
            if not self._is_closed:
                self._make_pools()

    def _make_pool(
        self,
        name: str,
        least: int,
        most: int,
        configure: Callable[[psycopg.Connection], None],
    ) -> Pool:
        return ConnectionPool(
            self._url,
            kwargs={
                "autocommit": True,
                "row_factory": tuple_row,
                "client_encoding": sessions.ENCODING,
                "connect_timeout": max(1, int(self._timeout)),
                **KEEPALIVE,
            },
            configure=configure,
            check=ConnectionPool.check_connection if least == 0 else None,
            min_size=least,
            max_size=most,
            timeout=self._timeout,
            reconnect_timeout=RECONNECT,
            reconnect_failed=_reconnect,
            open=False,
            name=f"windlass-{name}",
        )

    def _configure(self, connection: psycopg.Connection) -> None:
        self._known.add(connection)
        read_as_text(connection.adapters)
        if self._pooled:
            self._configure_effect(connection)
        else:
            connection.prepare_threshold = 0
            sessions.configure(connection)

    def _configure_effect(self, connection: psycopg.Connection) -> None:
        """A handler's connection is as the driver makes it; but prepared statements cannot pass a pooler, and under another isolation
        level a session that changes the handler's job meanwhile would make the handler's commit fail."""
        connection.isolation_level = IsolationLevel.READ_COMMITTED
        self._known.add(connection)
        if self._pooled:
            connection.prepare_threshold = None

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """A connection for a verb, from the pool that this thread reserved, if any."""
        with self.borrowed(getattr(self._own, "pool", self.verbs)) as connection, translated():
            yield connection

    @property
    def is_reserved(self) -> bool:
        """Whether this thread has a pool of its own at the moment."""
        return getattr(self._own, "pool", self.verbs) is not self.verbs

    @contextmanager
    def reserved(self, need: str) -> Iterator[None]:
        """Take this thread's connections from the pool for ``need`` (``BEATS`` or ``STEPS``)."""
        before = getattr(self._own, "pool", self.verbs)
        self._own.pool = self.beats if need == BEATS else self._stepping()
        try:
            yield
        finally:
            self._own.pool = before

    def _stepping(self) -> Pool:
        """The pool for steps, made when an engine first needs it: other processes do not need one more connection."""
        with self._opening:
            if self.steps is None:
                self.steps = self._make_pool("steps", 1, 1, self._configure)
                self.steps.open()
            return self.steps

    @contextmanager
    def borrowed(self, pool: Pool) -> Iterator[psycopg.Connection]:
        """A connection from this pool; errors of the pool become errors of the store."""
        if not self._is_open:  # in a forked child
            self.open()
        try:
            with pool.connection() as connection:
                try:
                    yield connection
                finally:
                    if connection.broken:
                        self._check_soon(pool)
        except PoolTimeout as error:
            raise StoreUnreachableError(
                "no connection to PostgreSQL became free in time; no statement was sent. Check that the server runs, or raise "
                "max_connections",
                is_unsent=True,
            ) from error
        except PoolClosed as error:
            raise StoreUnreachableError("this store is closed; open another one", is_unsent=True) from error

    def _check_soon(self, pool: Pool) -> None:
        """Check the other connections of the pool, which may be broken, too: each would cost a failed call. One thread a pool;
        if no thread can be started, the call's own error is what counts."""
        with self._opening:
            if pool in self._checked:
                return
            self._checked.add(pool)

        def check() -> None:
            try:
                pool.check()
            finally:
                self._checked.discard(pool)

        try:
            threading.Thread(target=check, daemon=True).start()
        except RuntimeError:
            self._checked.discard(pool)

    @contextmanager
    def waiting(self, seconds: float) -> Iterator[None]:
        """Hold one of the places for calls that may wait for another session's transaction: half of the connections at most,
        each for so many seconds."""
        if not self._waiters.acquire(timeout=seconds):
            raise StoreInterruptedError(
                f"half of this store's connections wait for keys (or ids) that other transactions hold, and none became free in {seconds:g} s; "
                "nothing of this call was stored. End those transactions sooner (pg_stat_activity shows them), or raise max_connections"
            )
        try:
            yield
        except StoreInterruptedError as error:
            if isinstance(error.__cause__, pg.LockNotAvailable):
                raise StoreInterruptedError(
                    f"another transaction that has not ended holds a key (or an id) of this call, for more than {seconds:g} s; nothing of "
                    "this call was stored. Repeat it, and end that transaction sooner: pg_stat_activity shows it"
                ) from error.__cause__
            raise
        finally:
            self._waiters.release()

    def close(self) -> None:
        self._is_closed = self._is_open = True
        for pool in self._pools:
            pool.close()


def _reconnect(pool: Pool) -> None:
    """Begin anew after a pool gave up connecting, if a call waits for a connection. Otherwise the next call does."""
    if pool.get_stats().get("requests_waiting"):
        pool.check()
