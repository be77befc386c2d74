"""``windlass rules``: list and remove rules, and list the fan-ins that are still open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.control import control, reason_option
from windlass.cli.database import Chosen, service_options
from windlass.cli.exit_codes import say
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

if TYPE_CHECKING:
    from windlass.model.rule import FanIn, StoredRule

COLUMNS = ("name", "parents", "key", "creates", "on", "policy", "state")
OPEN_COLUMNS = ("rule", "key", "round", "opened_at", "complete", "failed", "missing", "error")


@click.group()
def rules() -> None:
    """List and remove rules: which ends of jobs create which jobs."""


@rules.command()
@click.option(
    "--open",
    "is_open",
    is_flag=True,
    help="List children that are not created yet, and which parents are missing.",
)
@watch_option
@service_options
@output_option
def ls(is_open: bool, watch: bool, database: Chosen, output: str) -> None:
    """List all rules, or the open fan-ins."""
    with control(database) as service:

        def draw() -> None:
            if is_open:
                show([_fan_in(item) for item in service.rules.open()], OPEN_COLUMNS, output)
            else:
                show([_rule(item) for item in service.rules.list()], COLUMNS, output)

        repeated(watch, draw)


@rules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@reason_option
@service_options
def rm(names: Sequence[str], reason: str | None, database: Chosen) -> None:
    """Remove rules. Jobs that they created stay; children that still wait for parents are not created.

    A rule that code defines comes back when a worker with that code starts, without what its fan-ins had counted.
    """
    from windlass.control.why.texts import many

    with control(database) as service:
        found = [service.rules.get(name) for name in names]
        for item in found:
            left = service.rules.remove(item.rule.name, reason)
            lost = f", and {many(left, 'open fan-in')} with it" if left else ""
            say(f"{item.rule.name} is removed{lost}")


def _rule(stored: StoredRule) -> dict[str, Any]:
    rule = stored.rule
    return {
        "name": rule.name,
        "parents": list(rule.parents),
        "key": list(rule.key),
        "creates": rule.create,
        "on": str(rule.event),
        "policy": str(rule.policy),
        "state": "active" if stored.gone_at is None else "gone",
    }


def _fan_in(item: FanIn) -> dict[str, Any]:
    return {
        "rule": item.rule,
        "key": item.key,
        "round": item.round,
        "opened_at": item.opened_at,
        "complete": [part.kind for part in item.complete],
        "failed": [part.kind for part in item.failed],
        "missing": list(item.missing),
        "error": item.error,
    }
