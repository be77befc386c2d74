"""``windlass config``: show the settings and the origin of each."""

from __future__ import annotations

from pathlib import Path

import click

from windlass.cli.output import output_option, show


@click.group()
def config() -> None:
    """Inspect the settings."""


@config.command(name="show")
@click.option("--app", "target", metavar="MODULE:APP", help="Include the settings from this app's code.")
@click.option(
    "--file", type=click.Path(path_type=Path), help="The TOML file. [windlass.toml, if there is one]"
)
@click.option("--changed", is_flag=True, help="List only settings that are not defaults.")
@output_option
def show_config(target: str | None, file: Path | None, changed: bool, output: str) -> None:
    """List every setting with its value and its origin: default, file, environment or code.

    Passwords in URLs are not shown. A bad setting is an error that names the setting.
    """
    from windlass.config import KNOWN, load

    if target is not None:
        from windlass.cli.load_app import load_app

        loaded = load_app(target).config
    else:
        loaded = load(file=file)
    rows = [
        {"key": item.key, "value": item.shown, "origin": item.origin, "about": KNOWN[item.key].about}
        for item in loaded
        if not changed or item.origin != "default"
    ]
    show(rows, ("key", "value", "origin", "about"), output)
