"""Steps of set-up: each is told with its seconds, and one that fails is told with its last lines and its cure."""

import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAIL_LINES = 25


class StepError(Exception):
    """A step of set-up ended badly; carries what a person needs to go on."""

    def __init__(self, step: str, output: str, cure: str) -> None:
        super().__init__(step)
        self.step, self.output, self.cure = step, output, cure


def say(message: str) -> None:
    """Talk goes to stderr, so that stdout stays the command's own."""
    print(message, file=sys.stderr, flush=True)


def report_failure(failure: StepError) -> None:
    say(f"\ndev: FAILED step: {failure.step}")
    for line in failure.output.splitlines():
        say(f"  | {line}")
    say(f"dev: cure: {failure.cure}\n")


def step(
    title: str,
    command: list[str],
    *,
    cure: str,
    env: dict[str, str] | None = None,
    cwd: Path = ROOT,
    holding: int | None = None,
) -> str:
    """Run one step with its output kept aside, showing the seconds go by; raise StepError with its last lines.

    A step that is `holding` the lock's descriptor keeps the lock even if we are killed: an installer that lives on
    without us must not write into the environment that the next run is making.
    """
    live = sys.stderr.isatty()
    if not live:
        say(f"dev: {title} ...")
    began = time.monotonic()
    next_word = began + 15
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=() if holding is None else (holding,),
            )
        except OSError as error:
            raise StepError(title, f"{command[0]}: {error.strerror}", cure) from error
        try:
            while process.poll() is None:
                seconds = time.monotonic() - began
                if live:
                    print(f"\rdev: {title} ... {seconds:.1f} s", end="", file=sys.stderr, flush=True)
                elif time.monotonic() >= next_word:
                    say(f"dev: {title}: still going, {seconds:.0f} s")
                    next_word += 15
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.1)
        except BaseException:
            process.terminate()
            process.wait()
            if live:
                say("")
            raise
        seconds = time.monotonic() - began
        word = "done" if process.returncode == 0 else "FAILED"
        say(f"{chr(13) if live else ''}dev: {title} ... {word}, {seconds:.1f} s")
        output.seek(0)
        text = output.read().decode(errors="replace").strip()
        if process.returncode != 0:
            raise StepError(title, "\n".join(text.splitlines()[-TAIL_LINES:]), cure)
    return text
