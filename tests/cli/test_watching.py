"""``--watch`` of every list that has it: the list is printed until the user interrupts."""

from __future__ import annotations

from types import SimpleNamespace

import click
import pytest

from tests.cli.conftest import Windlass
from tests.cli.shop import Shop
from windlass.cli import windlass as program

LISTS = [("token", "ls"), ("deploys", "ls"), ("operations", "ls")]


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_a_list_is_printed_until_the_user_interrupts(
    command: tuple[str, ...], shop: Shop, windlass: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.app.tokens.create("wall", ["view"])
    shop.app.deploys.mark("release 41")
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("windlass.cli.watching.time", SimpleNamespace(sleep=pause))  # and no other thread's
    once = windlass(*command)
    answer = windlass(*command, "--watch")
    assert (once.code, answer.code) == (0, 130) and once.out
    assert answer.out == 3 * f"{once.out}\n"


def test_every_list_can_be_watched() -> None:
    lists = {
        f"{name} ls": group.commands["ls"]
        for name, group in program.commands.items()
        if isinstance(group, click.Group) and "ls" in group.commands
    }
    assert {"token ls", "deploys ls", "jobs ls"} <= lists.keys()
    assert {
        name for name, one in lists.items() if all(option.name != "watch" for option in one.params)
    } == set()
