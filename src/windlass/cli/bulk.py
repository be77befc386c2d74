"""Acts on all jobs of a filter from the command line: the count, the question, the operation with its progress, and its refusals."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from windlass.cli.control import confirm
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.operations import COLUMNS, record
from windlass.cli.output import show
from windlass.cli.terminal import LiveLines, is_terminal

if TYPE_CHECKING:
    from windlass.control.operations import OperationHandle
    from windlass.control.service import Control
    from windlass.operations.operation import Operation

EVERY = 0.5
SHOWN = 10
"""Refusals that are printed; `windlass operations show ID` has more."""


def act_on_many(
    service: Control,
    act: str,
    only: str,
    reason: str | None,
    *,
    options: dict[str, Any] | None = None,
    is_all: bool = False,
    is_dry_run: bool = False,
    is_detached: bool = False,
    is_sure: bool = False,
    output: str = "table",
) -> int:
    """Count, ask, and do an operation; 1 if a job was refused or the operation was stopped."""
    counted = service.operations.start(act, only, reason, options=options, all=is_all, dry_run=True)
    words = f"{act.replace('_', ' ')} {_count(counted.begun)}"
    if is_dry_run:
        show(
            [{"act": act, "filter": counted.begun.filter, "matched": counted.matched}],
            ("act", "filter", "matched"),
            output,
        )
        say(f"dry run, nothing is changed: {words}")
        return ExitCode.DONE
    if not counted.matched and counted.begun.is_exact:
        say(f"no job meets the filter {counted.begun.filter!r}; nothing is changed")
        return ExitCode.DONE
    confirm(f"{words[0].upper()}{words[1:]}?", yes=is_sure)
    handle = service.operations.start(act, only, reason, options=options, all=is_all)
    ended = handle.get() if is_detached else _waited(handle)
    show([record(ended)], COLUMNS, output)
    for refusal in ended.refusals[:SHOWN]:
        say(f"refused: {refusal.job_id}: {refusal.message}")
    if ended.refused > SHOWN:
        say(
            f"{ended.refused:,} jobs were refused; `windlass operations show {handle.id}` lists the first 100"
        )
    is_good = is_detached or (ended.state == "done" and not ended.refused)
    return ExitCode.DONE if is_good else ExitCode.ENDED_BADLY


def _count(operation: Operation) -> str:
    least = "" if operation.is_exact else "at least "
    many = f"{least}{operation.matched:,} job{'' if operation.matched == 1 else 's'}"
    return f"{many} ({operation.filter or 'all jobs'})"


def _waited(handle: OperationHandle) -> Operation:
    """Wait for the end of an operation; its progress is shown on a terminal."""
    lines = LiveLines(sys.stderr)
    try:
        while True:
            now = handle.wait(EVERY)
            if is_terminal(sys.stderr):
                lines.show([f"{now.done + now.refused:,} of {now.matched:,}, {now.refused:,} refused"])
            if now.is_over:
                lines.clear()
                return now
    except KeyboardInterrupt:
        say(f"operation {handle.id} is not stopped: `windlass operations stop {handle.id}` stops it")
        raise
