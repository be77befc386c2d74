"""Programs that must not outlive the process that started them, and their folders.

A test run that is killed with ``kill -9`` cannot tidy up, so tidying up must not depend on it:

- On Linux the kernel sends each program a signal when its parent dies (``PR_SET_PDEATHSIG``).
- Each program works in a scratch folder on which its owner holds a file lock. The lock vanishes with the owner, so the
  next run recognises the folders of the dead, ends what still runs there (other systems than Linux) and removes them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from windlass.errors import WindlassError

_PR_SET_PDEATHSIG = 1
_PREFIX = "windlass-server-"
_MEMORY = "/dev/shm"  # noqa: S108
_ENOUGH_MEMORY = 8 * 1024**3


class Account:
    """The account a server runs under: our own, or ``nobody`` for root, since PostgreSQL refuses uid 0."""

    def __init__(self) -> None:
        self.is_foreign = os.geteuid() == 0
        entry = pwd.getpwnam("nobody") if self.is_foreign else None
        self.uid = entry.pw_uid if entry else os.geteuid()
        self.gid = entry.pw_gid if entry else os.getegid()

    def give(self, path: Path) -> None:
        """Make the account the owner of a file or a whole folder."""
        if not self.is_foreign:
            return
        for name in [path, *path.rglob("*")] if path.is_dir() else [path]:
            os.chown(name, self.uid, self.gid, follow_symlinks=False)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # here: no look-ups between fork and exec


def die_with_parent(death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent dies; no effect on other systems than Linux."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))


def start(
    command: Sequence[str | Path],
    *,
    account: Account | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: IO[bytes] | int = subprocess.DEVNULL,
    death_signal: signal.Signals = signal.SIGKILL,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program that gets ``death_signal`` when this process dies, however it dies; it has the descriptors in ``keep``, too.

    Only the main thread may call it: the kernel counts the death of the *thread* that forked as the parent's. The
    program has a session of its own, so Ctrl-C in the terminal is left to us to handle in order.
    """
    if threading.current_thread() is not threading.main_thread():
        raise WindlassError(
            f"{Path(command[0]).name} must be started from the main thread; start it before others"
        )
    parent = os.getpid()

    def tie_to_parent() -> None:
        # Runs in the child after the change of account, which would have cleared the setting.
        die_with_parent(death_signal)
        if os.getppid() != parent:  # it died before the line above could take effect
            os._exit(1)

    foreign = account is not None and account.is_foreign
    return subprocess.Popen(
        [str(part) for part in command],
        env=dict(env) if env is not None else None,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=tie_to_parent,  # safe: only the main thread forks here, and the function makes system calls only
        user=account.uid if account and foreign else None,
        group=account.gid if account and foreign else None,
        extra_groups=[] if foreign else None,
        pass_fds=tuple(keep),
    )


def free_port() -> int:
    """A port without a listener, below the range that outgoing connections draw from.

    Outside that range the port is still free when a crashed server is started again on it.
    """
    for _ in range(200):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise WindlassError("no free port between 20000 and 32000 on 127.0.0.1; stop some servers and try again")


class ScratchFolder:
    """A short-named temporary folder that is recognisably ours and recognisably in use.

    Under /tmp where possible: a Unix socket's path may not exceed 107 characters, and ``nobody`` must reach it.
    ``in_memory`` asks for /dev/shm where that is large: a database cloned from a template is thousands of small
    files, and takes 0.02 s there against 0.3 s on a disk.
    """

    def __init__(self, account: Account, *, in_memory: bool = False) -> None:
        self._account = account
        self.owner = os.getpid()
        parent = _MEMORY if in_memory and _has_room(_MEMORY) else _scratch_parent()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            try:
                self._lock = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                continue  # swept away between the two lines: it seemed abandoned
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if self.path.exists():
                break
            os.close(self._lock)
        os.chown(self.path, account.uid, account.gid)

    def remove(self) -> None:
        """Remove the folder. A forked child does nothing: the folder belongs to the process that made it."""
        if os.getpid() != self.owner or self._lock < 0:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1


def _scratch_parent() -> str:
    return "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()  # noqa: S108


def _has_room(folder: str) -> bool:
    try:
        return os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= _ENOUGH_MEMORY
    except OSError:
        return False


def sweep(account: Account) -> list[Path]:
    """Remove the scratch folders of processes that are gone, ending servers that still run there."""
    swept = []
    for parent in {Path("/tmp"), Path(tempfile.gettempdir()), Path(_MEMORY)}:  # noqa: S108
        for folder in parent.glob(f"{_PREFIX}*"):
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue  # another user's, or just gone
            try:
                if os.fstat(descriptor).st_uid not in (os.geteuid(), account.uid):
                    continue
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # its owner lives
            else:
                _end_postmaster(folder / "data")
                shutil.rmtree(folder, ignore_errors=True)
                swept.append(folder)
            finally:
                os.close(descriptor)
    return swept


def _end_postmaster(data: Path) -> None:
    """End the server of a data folder, if the process its pid file names is really that server."""
    with suppress(OSError, ValueError, IndexError):
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        listing = subprocess.run(
            ["ps", "-ww", "-o", "command=", "-p", str(pid)],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
        )
        if str(data) not in listing.stdout:
            return
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            os.kill(pid, 0)  # raises once it is gone
            time.sleep(0.02)
