"""``windlass token``: make, list and revoke tokens of the REST API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import click

from windlass.cli.control import control, reason_option
from windlass.cli.database import ChosenDatabase, database_options
from windlass.cli.durations import Duration
from windlass.cli.exit_codes import say
from windlass.cli.output import output_option, show
from windlass.cli.watching import repeated, watch_option

COLUMNS = (
    *("name", "state", "roles", "subject", "issuer", "tenant", "expires_at", "last_used_at", "revoked_at"),
    *("created_by", "created_at", "id"),
)


@click.group()
def token() -> None:
    """Make, list and revoke tokens of the REST API."""


@token.command()
@click.argument("name")
@click.option(
    "--role",
    "roles",
    multiple=True,
    required=True,
    metavar="ROLE",
    help="view, view-payload, submit, operate, edit or admin; may be repeated.",
)
@click.option(
    "--subject",
    metavar="NAME",
    help="The person for whom the token acts: it sees that person's jobs. Without it, all jobs of the tenant, or all jobs.",
)
@click.option("--issuer", metavar="NAME", help="The issuer of the subject, as in the person's principal.")
@click.option("--tenant", metavar="NAME", help="The tenant that the token is limited to.")
@click.option(
    "--expires",
    type=Duration(),
    default="90d",
    show_default=True,
    metavar="DURATION",
    help="How long the token can be used: 12h, 30d, forever.",
)
@reason_option
@database_options
@output_option
def create(
    name: str,
    roles: Sequence[str],
    subject: str | None,
    issuer: str | None,
    tenant: str | None,
    expires: timedelta | None,
    reason: str | None,
    database: ChosenDatabase,
    output: str,
) -> None:
    """Make a token and print its text, which is stored nowhere and cannot be shown again."""
    with control(database) as service:
        made = service.tokens.create(
            name, roles, lasts=expires, subject=subject, issuer=issuer, tenant=tenant, reason=reason
        )
    if output == "table":
        click.echo(made.text)
    else:
        show([{"name": name, "id": made.token.id, "token": made.text}], ("name", "id", "token"), output)
    say(f"this is the only time that the token {name} is shown; send it as: Authorization: Bearer TOKEN")


@token.command()
@watch_option
@database_options
@output_option
def ls(watch: bool, database: ChosenDatabase, output: str) -> None:
    """List tokens, newest first. The state is live, expired or revoked; `last_used_at` is right to the minute."""
    with control(database) as service:

        def draw() -> None:
            rows = [
                {**{name: getattr(one, name) for name in COLUMNS}, "roles": ", ".join(one.roles)}
                for one in service.tokens.list()
            ]
            show(rows, COLUMNS, output)

        repeated(watch, draw)


@token.command()
@click.argument("name_or_id", metavar="NAME")
@reason_option
@database_options
def revoke(name_or_id: str, reason: str | None, database: ChosenDatabase) -> None:
    """Revoke a token, by its name or id: the next request with it is refused."""
    with control(database) as service:
        was_live = service.tokens.revoke(name_or_id, reason)
    say(f"the token {name_or_id} is revoked" if was_live else f"the token {name_or_id} had been revoked")
