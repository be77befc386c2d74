"""Filters on the command line: words after the command, or ``--where``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_NEGATED = re.compile(r"-[a-z]+(\..*?)?:")
_MARK = "\0"
"""Set before words that begin like options; no argument of a process has this character."""


class FilterCommand(click.Command):
    """A command whose words may be negated terms of a filter: ``-state:failed`` is a word, not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_MARK + text if _NEGATED.match(text) else text for text in args])


def filter_argument(function: F) -> F:
    """The words of a filter; the command gets them as one text, ``only``."""
    argument = click.argument("only", nargs=-1, metavar="[FILTER]...", callback=_joined)
    return argument(function)


def _joined(ctx: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str:
    return " ".join(word.removeprefix(_MARK) for word in words)
