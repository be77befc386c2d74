"""All connections of one process to one SQLite file: one that writes, one for each thread that reads, those of handlers and listeners; the
queues that wake this process's listeners, and the check that the path still leads to the file.

None of them may be there when the process forks. SQLite keeps one record of the locks that a process has on a file, for all its
connections. A child would have the parent's record, and none of the locks: what it opened would be unprotected, and the others would end
the log under it. So they are closed before, and opened again, by parent and child, when they are next wanted.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast
from weakref import WeakSet

from windlass import forking
from windlass.errors import StoreError, StoreUnreachableError
from windlass.store.sqlite.connection import LONG_LOG_PAGES, ReaderConnection, connect
from windlass.store.sqlite.errors import locked

CUT_WAIT_MS = 200
CLOSE_WAIT = 2.0  # for a thread that reads while the store is closed
FORK_WAIT = 5.0  # for threads that read and write while the process forks


class Wakeups:
    """Wakes the listeners of this process after each of its commits.

    Callers' threads call ``notify``, and a signal handler's exception may interrupt them anywhere. So ``notify`` takes no lock: a
    ``threading.Condition`` that is interrupted while it is released stays locked, and every later commit of the process would wait.
    """

    def __init__(self) -> None:
        self._sleepers: tuple[SimpleQueue[None], ...] = ()
        self._lock = threading.Lock()
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: the listeners are the parent's."""
        self._lock = threading.Lock()
        self._sleepers = ()

    def notify(self) -> None:
        """Wake the listeners."""
        for sleeper in self._sleepers:
            if sleeper.empty():
                sleeper.put(None)

    def add(self) -> SimpleQueue[None]:
        """A queue that gets an item at each commit."""
        sleeper: SimpleQueue[None] = SimpleQueue()
        with self._lock:
            self._sleepers = (*self._sleepers, sleeper)
        return sleeper

    def remove(self, sleeper: SimpleQueue[None]) -> None:
        """Stop waking this queue."""
        with self._lock:
            self._sleepers = tuple(one for one in self._sleepers if one is not sleeper)


class OpenedFile:
    """Checks whether a path still leads to the file that was opened: SQLite goes on writing into a file that was deleted, moved or replaced, and in
    WAL mode raises no error. Call it only while a connection has that file open: until it is closed, its inode number is not used for another
    file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None
        self.check()

    def check(self) -> None:
        """Raise if the path no longer leads to the file; takes 2 µs."""
        try:
            found = self._path.stat()
        except OSError as error:
            raise StoreUnreachableError(
                f"{self._path} was deleted or moved after this process had opened it ({error.strerror}); nothing was stored or "
                "read. Put it back, with its -wal and -shm, or restart the process, which makes a new one",
                is_unsent=True,
            ) from error
        identity = found.st_dev, found.st_ino
        if self._identity is None:
            self._identity = identity
        elif identity != self._identity:
            raise StoreUnreachableError(
                f"{self._path} was replaced by another file after this process had opened it; nothing was stored or read. "
                "Restart the process to use the file that is there now",
                is_unsent=True,
            )


class _Left:
    """Connections of threads that have ended. They are closed under the lock that keeps a fork away: SQLite has locks of the whole
    process, and a child that was forked while a thread held one waits for it forever."""

    def __init__(self, opening: threading.Lock) -> None:
        self._opening = opening
        self._all: deque[ReaderConnection] = deque()
        self._pid = os.getpid()

    def add(self, connection: ReaderConnection) -> None:
        self._all.append(connection)
        self.close()

    def close(self) -> None:
        """Close them, now or when the lock is released: this is called from finalizers, which must not wait. Never in a
        child, where they are the parent's."""
        while self._all and os.getpid() == self._pid and self._opening.acquire(blocking=False):
            try:
                while self._all:
                    self._all.popleft().close()
            finally:
                self._opening.release()


class _OfThread:
    """A thread's reader; gone when the thread is."""

    def __init__(self, reader: ReaderConnection, left: _Left) -> None:
        self.reader = reader
        self._left = left

    def __del__(self) -> None:
        self._left.add(self.reader)


class Connections:
    """Opens, lends and closes them. Safe to share between threads."""

    def __init__(self, path: str, url: str, busy_timeout: float) -> None:
        self._path = path
        self._url = url
        self._busy_timeout = busy_timeout
        self._is_closed = False
        self._is_spoilt = False  # by a fork
        self._held: list[Any] = []
        self._carried: list[sqlite3.Connection] = []
        self._begin()
        self.writer: sqlite3.Connection | None = None
        """The connection that writes, for the thread that has the turn and the lock; None until it is needed again."""
        forking.watch(self)
        with self.lock:
            self.writer = connect(url, busy_timeout)
        self.file = OpenedFile(Path(path))

    def _begin(self) -> None:
        self._local = threading.local()
        self.lock = threading.RLock()
        self._turn = threading.RLock()
        self._open: WeakSet[sqlite3.Connection] = WeakSet()
        # Not the writer's lock: the writer may wait for the very thread that wants to read.
        self._opening = threading.Lock()
        self._left = _Left(self._opening)

    @contextmanager
    def in_turn(self, seconds: float) -> Iterator[None]:
        """Wait for this process's threads to take turns at writing, before the file's lock is requested.

        SQLite polls the file's lock, with growing pauses, and the first poll after its release gets it: beside thirty
        handlers that write, a heartbeat waited up to 15 s. With turns it is 1 s.
        """
        turn = self._turn
        try:
            if not turn.acquire(timeout=seconds):
                raise locked(self._path, "another thread of this process")
            yield
        finally:
            try:  # noqa: SIM105
                turn.release()
            except (
                RuntimeError
            ):  # it was not acquired; to ask first would leave a moment for a signal in between
                pass

    def open_writer(self) -> sqlite3.Connection:
        """Open the connection that writes again; for the thread that has the turn and the lock."""
        self._refuse()
        self.file.check()
        self.writer = connect(self._url, self._busy_timeout)
        return self.writer

    def open(
        self, patience: float, factory: type[sqlite3.Connection] = ReaderConnection
    ) -> sqlite3.Connection:
        """One more connection; never to a new file, which SQLite would make."""
        self._refuse()
        self.file.check()
        with self._opening:
            connection = connect(self._url, patience, factory)
            if factory is ReaderConnection:
                connection.execute("PRAGMA query_only = ON")
            self._open.add(connection)  # from here on a fork may close it, unless it is busy
        self._left.close()
        return connection

    @contextmanager
    def reading(self) -> Iterator[ReaderConnection]:
        """The connection with which this thread reads; a fork or the end of the store waits until this block ends."""
        while True:
            self.file.check()
            own: _OfThread | None = getattr(self._local, "reader", None)
            if own is None or own.reader.must_reopen:
                own = _OfThread(cast(ReaderConnection, self.open(self._busy_timeout)), self._left)
                self._local.reader = own
            reader = own.reader
            with reader.busy:
                if not reader.must_reopen:
                    yield reader
                    return

    def end(self, connection: sqlite3.Connection) -> None:
        """Close one that was opened here."""
        with self._opening:
            connection.close()
            self._open.discard(connection)
        self._left.close()

    def shorten_log(self) -> None:
        """Keep the write-ahead log short. Writers cut it when it starts anew; one that never could, because there was always a reader, or
        that is not written to any more, is cut here."""
        with self.reading() as reader:
            _, pages, _ = reader.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages > LONG_LOG_PAGES:
            self._cut_log()

    def _cut_log(self) -> None:
        """Cut the log. Holds the write lock while it waits for readers, so not for long; if they stay, it is left to the next call."""
        with self.in_turn(self._busy_timeout), self.reading() as reader:
            reader.execute(f"PRAGMA busy_timeout = {CUT_WAIT_MS}")
            try:
                reader.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                reader.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout * 1000)}")

    def close(self) -> None:
        """Close the writer and the threads' readers; handlers and listeners close their own."""
        with self.lock, self._opening:
            self._is_closed = True
            for reader in list(self._open):
                if type(reader) is ReaderConnection and reader.busy.acquire(timeout=CLOSE_WAIT):
                    reader.close()  # else its thread closes it when it ends
                    reader.busy.release()
            if self.writer is not None:
                self.writer.close()
            self._open.clear()
        self._left.close()

    def _refuse(self) -> None:
        if self._is_closed:
            raise StoreUnreachableError("this store is closed; open another one")
        if self._is_spoilt:
            raise StoreError(
                f"{self._path} cannot be used in this process: it was forked while a transaction was open on the file, and SQLite "
                "would take the parent's locks for its own. Fork outside of transactions, or start the process anew (subprocess, "
                "multiprocessing with 'spawn')"
            )

    # ------------------------------------------------------------------ forks

    def before_fork(self) -> None:
        """Have no connection open, and none being opened, until the process has forked. If that is not possible, the child's calls raise."""
        deadline = time.monotonic() + FORK_WAIT
        is_free = False
        try:
            is_free = (
                self._acquire(self._turn, deadline)
                and self._acquire(self.lock, deadline)
                and self._acquire(self._opening, deadline)
                and self._close_all(deadline)
            )
        finally:
            # Kept here, too: a child ends its parent's other threads, and with them what only they have.
            open_ones = [] if is_free else [self.writer, *list(self._open)]
            self._carried = [item for item in open_ones if item is not None]

    def _acquire(self, lock: Any, deadline: float) -> bool:
        if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        self._held.append(lock)
        return True

    def _close_all(self, deadline: float) -> bool:
        if self._is_closed:
            return True
        readers = [reader for reader in list(self._open) if isinstance(reader, ReaderConnection)]
        if len(readers) < len(self._open) or (self.writer is not None and self.writer.in_transaction):
            return False
        for reader in readers:
            if not self._acquire(reader.busy, deadline):
                return False
            reader.must_reopen = True
            reader.close()
            self._open.discard(reader)
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        return True

    def after_fork_in_parent(self) -> None:
        self._carried = []
        while self._held:
            self._held.pop().release()
        self._left.close()

    def after_fork_in_child(self) -> None:
        """Make new locks: those that hold or wait for the old ones are threads of the parent."""
        for lock in self._held:
            lock.release()  # the thread that forked has them; listeners of the parent are used here, too
        for connection in self._carried:
            forking.abandon(connection)
            self._is_spoilt, self.writer = True, None
            if isinstance(connection, ReaderConnection):
                connection.busy, connection.must_reopen = threading.Lock(), True
        self._carried, self._held = [], []
        self._begin()
