"""The number of worker processes, as a parameter of a command: a number, or ``auto`` for the cores."""

from __future__ import annotations

import os
from typing import Any

import click

MOST = 256
AUTO = "auto"


def cores() -> int:
    """The cores that this process may use: those of its affinity where the system has that, else those of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessCount(click.IntRange):
    """From 1 to 256, or ``auto``."""

    name = "processes"

    def __init__(self) -> None:
        super().__init__(1, MOST)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == AUTO:
            return min(cores(), MOST)
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter as error:
            self.fail(f"{error.message} Write a number, or {AUTO} for one process a core.", param, ctx)
