"""An app for the worker command's tests; its database is the one of the environment."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

from tests.waiting import PATIENCE
from windlass import App, Context
from windlass.retry import fixed

app = App()
FORK = multiprocessing.get_context("fork")


@app.job
async def hello(name: str) -> str:
    return f"hello {name}"


@app.job(retry=fixed(2, wait=0.05))
def fail() -> None:
    raise ValueError("on purpose")


@app.job(processors=2)
def wait(seconds: float, ctx: Context, begun: str = "") -> str:
    if begun:
        Path(begun).touch()
    ctx.sleep(seconds)
    return "waited"


@app.job(processors=1)
def meet(folder: str, ctx: Context) -> None:
    """Wait until jobs of two processes are here; a process runs one of them at a time."""
    Path(folder, str(os.getpid())).touch()
    while len([*Path(folder).iterdir()]) < 2:
        ctx.sleep(0.05)


@app.job(processors=1)
def stubborn(seconds: float) -> None:
    time.sleep(seconds)


@app.job(executor="process")
def speak() -> None:
    logging.getLogger("shop").info("from a child")


@app.job(executor="process")
def pass_on(name: str) -> None:
    hello.enqueue(name=name)


@app.job(executor="process")
def pid() -> int:
    return os.getpid()


@app.job(retry=fixed(1))
def die(code: int = 9) -> None:
    os._exit(code)


def _terminate() -> int | None:
    """How soon after its start it is told to end does not matter."""
    children = [FORK.Process(target=time.sleep, args=(15,), daemon=True) for _ in range(20)]
    for child in children:
        child.start()
        child.terminate()
    for child in children:
        child.join(PATIENCE)
    (code,) = {child.exitcode for child in children}
    return code


@app.job
def terminate() -> int | None:
    return _terminate()


@app.job(executor="process")
def terminate_in_process() -> int | None:
    return _terminate()


@app.job
async def stay_in_thread(seconds: float, begun: str) -> None:
    sys.stdout.write("not flushed")
    await asyncio.to_thread(_stay, seconds, begun)


def _stay(seconds: float, begun: str) -> None:
    Path(begun).touch()
    time.sleep(seconds)


@app.job
def leave_process(seconds: float, begun: str = "") -> None:
    sys.stdout.write("not flushed")
    FORK.Process(target=time.sleep, args=(seconds,), name="sleeper").start()
    if begun:
        Path(begun).touch()


def is_stamped(path: str, dies: str) -> int | None:
    return Path(path).stat().st_size if Path(path).exists() else None


@app.job(probe=is_stamped)
def stamp(path: str, dies: str) -> int:
    """Writes a file; the first time its instance is killed, before or after."""
    is_first = not Path(f"{path}.begun").exists()
    Path(f"{path}.begun").touch()
    if is_first and dies == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    with Path(path).open("a") as file:
        file.write("x")
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    return -1
