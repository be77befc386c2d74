"""The file behind a store, as it was when the store was opened.

If it is deleted, moved or replaced, SQLite goes on writing into a file that has no name any more, and in WAL mode raises no error.
"""

from __future__ import annotations

from pathlib import Path

from windlass.errors import StoreUnreachableError


class OpenedFile:
    """Checks whether a path still leads to the file that was opened. Call it only while a connection has that file open: until it is closed,
    its inode number is not used for another file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._read()

    def check(self) -> None:
        """Raise if the path no longer leads to the file; takes 2 µs."""
        if self._read() != self._identity:
            raise StoreUnreachableError(
                f"{self._path} was replaced by another file after this process had opened it; nothing was stored or read. "
                "Restart the process to use the file that is there now",
                is_unsent=True,
            )

    def _read(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise StoreUnreachableError(
                f"{self._path} was deleted or moved after this process had opened it ({error.strerror}); nothing was stored or "
                "read. Put it back, with its -wal and -shm, or restart the process, which makes a new one",
                is_unsent=True,
            ) from error
        return found.st_dev, found.st_ino
