"""Handlers that run in child processes, and what they do to them. Importable by name, as all such handlers must be."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from pydantic import BaseModel

from windlass.errors import LeaseLost
from windlass.handlers.context import Context
from windlass.handlers.registry import Registry
from windlass.model.signals import Cancel, Fail, Retry
from windlass.observe.current_job import current_job
from windlass.retry import fixed, run_with_backoff


class Greeting(BaseModel):
    text: str
    at: timedelta = timedelta(0)


class TeapotError(Exception):
    def __init__(self, status: int, **more: Any) -> None:
        super().__init__(f"answered {status}")
        self.status = status
        self.unsendable = object()


class SealedError(TeapotError):
    """No other process can make one without arguments."""

    def __new__(cls, status: int) -> SealedError:
        return super().__new__(cls, status)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


# ---------------------------------------------------------------------- ends


def pid() -> int:
    return os.getpid()


def parent_pid() -> int:
    return os.getppid()


def echo(value: Any) -> Any:
    return value


async def echo_async(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def loop_id() -> int:
    return id(asyncio.get_running_loop())


def greet(name: str) -> Greeting:
    return Greeting(text=f"grüß dich, {name} 🪝")


def bad_result() -> int:
    return "not a number"  # type: ignore[return-value]


def repeat(text: str, times: int) -> str:
    return text * times


def raise_value_error() -> NoReturn:
    try:
        raise KeyError("cause")
    except KeyError as error:
        raise ValueError("it broke: ü") from error


async def raise_async() -> NoReturn:
    await asyncio.sleep(0)
    raise ValueError("it broke")


def raise_teapot() -> NoReturn:
    raise TeapotError(418)


def raise_unprintable() -> NoReturn:
    raise UnprintableError


def raise_connection_error() -> NoReturn:
    raise ConnectionRefusedError(111, "refused")


def raise_signal(which: str) -> NoReturn:
    match which:
        case "retry":
            raise Retry("later", after=90, counted=False)
        case "retry by policy":
            raise Retry
        case "fail":
            raise Fail("bad_county", "no such county")
        case "cancel":
            raise Cancel("enough")
        case "lost":
            raise LeaseLost("job")
        case "cancelled":
            raise asyncio.CancelledError
        case _:
            raise AssertionError(which)


def leave(code: int) -> NoReturn:
    sys.exit(code)


async def leave_async() -> NoReturn:
    sys.exit(4)


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


# ---------------------------------------------------------------------- deaths


def crash() -> NoReturn:
    ctypes.string_at(0)
    raise AssertionError("should have crashed")


def end_process(code: int) -> NoReturn:
    print("about to end", file=sys.stderr)
    os._exit(code)


def kill_itself(number: int) -> NoReturn:
    print("fare well " * 1000, file=sys.stderr)
    os.kill(os.getpid(), number)
    time.sleep(60)
    raise AssertionError("should have died")


def close_everything() -> None:
    os.closerange(3, 256)


def shut_down_everything() -> None:
    for number in range(3, 256):
        try:
            line = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        with line:
            line.shutdown(socket.SHUT_WR)
    time.sleep(60)


def write_rubbish() -> None:
    for number in range(3, 256):
        try:
            os.write(number, b"\0\0\0\5hello")
        except OSError:
            continue
    time.sleep(60)


def take_memory(megabytes: int) -> int:
    return len(bytearray(megabytes * 1024 * 1024))


def start_sleeper(path: str) -> NoReturn:
    """Start a program, note its id, and die."""
    sleeper = subprocess.Popen(["sleep", "600"])
    Path(path).write_text(str(sleeper.pid))
    os._exit(9)


# ---------------------------------------------------------------------- stopping


def note(path: str) -> None:
    """Say that a handler has begun, and in which process."""
    made = Path(path).with_suffix(".new")
    made.write_text(str(os.getpid()))
    made.rename(path)


def sleep(path: str) -> None:
    """Begin, and do nothing for ever."""
    note(path)
    time.sleep(600)


def regroup(path: str) -> None:
    """Leave the process group that the child was given."""
    os.setpgid(0, os.getpgid(os.getppid()))
    sleep(path)


def wait_for(path: str, go: str) -> str:
    """Begin, and end when a file is there."""
    note(path)
    while not Path(go).exists():
        time.sleep(0.005)
    return "gone"


def hog(path: str) -> NoReturn:
    """Keep the interpreter busy without ever letting another thread have it."""
    note(path)
    sys.setswitchinterval(1e6)
    while True:
        pass


def look_at_stop(path: str, ctx: Context) -> str:
    note(path)
    while not ctx.should_stop:
        time.sleep(0.005)
    ctx.check_stop()
    return "unreachable"


def finish_although_stopped(path: str, ctx: Context) -> str:
    note(path)
    while not ctx.should_stop:
        time.sleep(0.005)
    return "finished all the same"


async def sleep_async(path: str) -> NoReturn:
    note(path)
    await asyncio.sleep(600)
    raise AssertionError("should have been cancelled")


def interrupt_self() -> str:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
    return "still here"


def beat(times: int, ctx: Context) -> int:
    for _ in range(times):
        ctx.alive()
    return times


# ---------------------------------------------------------------------- noise


def print_much(lines: int) -> str:
    for number in range(lines):
        print(f"out {number} ü")
        print(f"err {number} ü", file=sys.stderr)
    sys.stdout.write("no newline")
    return "printed"


def job_in_logs() -> str | None:
    running = current_job.get()
    return running.lease.id if running else None


def mute() -> str:
    os.close(1)
    os.close(2)
    return "muted"


def time_limit(ctx: Context) -> float | None:
    return ctx.time_limit


def raise_sealed() -> NoReturn:
    raise SealedError(418)


def call_in_vain(path: str) -> None:
    """Repeat a call that never works, long after the test has ended."""

    def call() -> None:
        Path(path).touch()
        raise ConnectionError("no")

    run_with_backoff(call, policy=fixed(2, wait=3600))


# ---------------------------------------------------------------------- decorated handlers


def _decorated(handler: Any) -> Any:
    """What ``@app.job`` leaves in a module, as far as a child is concerned."""
    phase = Registry().define(
        "decorated",
        handler,
        injected=lambda annotation: annotation is Context or annotation is SimpleNamespace,
    )
    return SimpleNamespace(
        windlass_phase=phase,
        windlass_wrap=lambda handler, wanted: partial(handler, mailer=SimpleNamespace(name="real")),
    )


@_decorated
def decorated(name: str, mailer: SimpleNamespace, ctx: Context) -> str:
    return f"{name} by {mailer.name} in {ctx.phase}"


class Holder:
    @staticmethod
    def nested() -> str:
        return "nested"

    def method(self) -> None: ...


def make_closure() -> Any:
    def closure() -> None: ...

    return closure


rebound = echo_async
renamed = echo


def fork(how: str) -> str:
    """The child comes back from the handler: the code it ended with, as the parent sees it."""
    if (pid := os.fork()) == 0:
        match how:
            case "exits":
                sys.exit(3)
            case "raises":
                raise ValueError("in the child")
        return "the child's word"
    return f"child ended with {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}"


def break_down() -> None:
    raise ValueError("broken")


def lively(ctx: Context) -> None:
    """Runs for ever, and shows it."""
    while True:
        ctx.alive()
        time.sleep(0.005)
