"""An app for the worker command's tests; its database is the one of the environment."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from windlass import App, Context, fixed

app = App()


@app.job
async def hello(name: str) -> str:
    return f"hello {name}"


@app.job(retry=fixed(2, wait=0.05))
def fail() -> None:
    raise ValueError("on purpose")


@app.job(processors=2)
def wait(seconds: float, ctx: Context) -> str:
    ctx.sleep(seconds)
    return "waited"


@app.job(processors=1)
def stubborn(seconds: float) -> None:
    time.sleep(seconds)


@app.job(executor="process")
def pid() -> int:
    return os.getpid()


@app.job(retry=fixed(1))
def die(code: int = 9) -> None:
    os._exit(code)


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
