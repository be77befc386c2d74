"""``windlass config``: show the settings and the origin of each."""

from __future__ import annotations

import os
from pathlib import Path

import click

from windlass.cli.database import app_option, configured, url_option
from windlass.cli.output import output_option, show


@click.group()
def config() -> None:
    """Inspect the settings."""


@config.command(name="show")
@app_option
@url_option
@click.option(
    "--file", type=click.Path(path_type=Path), help="The TOML file. [windlass.toml, if there is one]"
)
@click.option("--changed", is_flag=True, help="List only settings that are not defaults.")
@output_option
def show_config(target: str | None, url: str | None, file: Path | None, changed: bool, output: str) -> None:
    """List every setting with its value and its origin: flag, code, environment, file or default.

    The first row is the database. Passwords in URLs are not shown. A bad setting is an error that names the setting.
    Variables that begin with WINDLASS_ and set nothing are listed on standard error.
    """
    from windlass.config import DEFAULT
    from windlass.environment import ignored
    from windlass.setting_keys import KNOWN, URL

    if file is not None and target is not None:
        raise click.UsageError("an app finds its file itself; name it with WINDLASS_CONFIG instead of --file")
    loaded, _ = configured(target, url, file)
    rows = [
        {"key": item.key, "value": item.shown, "origin": item.origin, "about": KNOWN[item.key].about}
        for item in loaded
        if not changed or item.origin != DEFAULT or item.key == URL
    ]
    show(rows, ("key", "value", "origin", "about"), output)
    for variable in ignored(os.environ):
        click.echo(f"warning: the variable {variable} is no setting and is ignored", err=True)
