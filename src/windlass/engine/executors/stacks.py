"""The stack of a running handler, for people who ask what it does. Nothing is noted while handlers run: it is found when it is asked for."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from windlass.engine.running_attempt import RunningAttempt

MOST_FRAMES = 60
"""The innermost frames that are shown."""
_OWN = str(Path(__file__).parents[2])
_CALLERS = tuple(str(Path(__file__).with_name(name)) for name in ("threads.py", "shared_task.py"))
"""The files of the functions that call handlers."""
_RUNNING, _COROUTINE = "running", "coroutine"
"""The names under which the executors' own functions hold an attempt, and the coroutine of its handler."""


def stack_of_thread(running: RunningAttempt) -> str | None:
    """The stack of a handler that a thread runs; None if none does."""
    for frame in sys._current_frames().values():
        found = list(_outwards(frame))
        if any(_holds(one, running) for one in found):
            return _text([(one, one.f_lineno) for one in reversed(found)])
    return None


def stack_of_task(running: RunningAttempt) -> str | None:
    """The stack of an async handler: of the loop's thread while that runs it, else where it waits; None if it has not begun."""
    if (text := stack_of_thread(running)) is not None:
        return text
    frames: list[FrameType] = []
    waiting: Any = None if running.handle is None else running.handle.get_coro()
    while waiting is not None:
        frame = _first(waiting, "cr_frame", "gi_frame", "ag_frame")
        if frame is None:
            break
        frames.append(frame)
        inner = _first(waiting, "cr_await", "gi_yieldfrom", "ag_await")
        if inner is None and _is_own(frame):
            inner = frame.f_locals.get(_COROUTINE)  # the executor sends to it, and does not await it
        waiting = inner
    return _text([(one, one.f_lineno) for one in frames]) if frames else None


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _holds(frame: FrameType, running: RunningAttempt) -> bool:
    return frame.f_code.co_filename in _CALLERS and frame.f_locals.get(_RUNNING) is running


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OWN)


def _text(frames: list[tuple[FrameType, int]]) -> str:
    """Frames, the outermost first, without those of Windlass that lead to the handler."""
    first = next((i for i, (frame, _) in enumerate(frames) if _is_own(frame)), 0)
    while first < len(frames) and _is_own(frames[first][0]):
        first += 1
    shown = (frames[first:] or frames)[-MOST_FRAMES:]
    return "".join(traceback.StackSummary.extract(iter(shown), capture_locals=False).format())


def _first(value: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(value, name, None)) is not None), None)
