"""``windlass doctor``: check settings, database and instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from windlass.cli.database import app_option, choose, url_option
from windlass.cli.exit_codes import ExitCode, say
from windlass.cli.output import output_option, show

if TYPE_CHECKING:
    from windlass.control.doctor.findings import Diagnosis

COLUMNS = ("severity", "code", "sentence", "cure")


@click.command()
@app_option
@url_option
@output_option
def doctor(target: str | None, url: str | None, output: str) -> int:
    """Check settings, database and instances; print each finding with its cure.

    Nothing is changed. The exit code is 0 if there is neither an error nor a warning, 1 if there is one, and 69 if the
    database cannot be reached. With -o json the findings are a list of objects.
    """
    found = _examined(target, url)
    if output == "table":
        for number, finding in enumerate(found.findings):
            click.echo(("\n" if number else "") + _text(finding.severity, finding.code, finding.sentence))
            click.echo(_text("cure", "", finding.cure))
    else:
        show([finding.record for finding in found.findings], COLUMNS, output)
    say(_summary(found))
    if not found.is_reachable:
        return ExitCode.UNREACHABLE
    return ExitCode.DONE if found.is_good else ExitCode.ENDED_BADLY


def _examined(target: str | None, url: str | None) -> Diagnosis:
    from windlass.control.doctor.doctor import examine
    from windlass.control.doctor.findings import Diagnosis
    from windlass.control.doctor.settings import of_error
    from windlass.errors import ConfigError

    try:
        database = choose(target, url)
    except ConfigError as error:
        return Diagnosis.of([of_error(error)])
    try:
        return examine(database.url, database.config)
    finally:
        if database.app is not None:
            database.app.close()


def _text(label: str, code: str, text: str) -> str:
    from windlass.observe.safe_text import escaped

    head = f"{label:<8}" + (f" {code}: " if code else " ")
    return f"{head}{escaped(' '.join(text.split()))}"


def _summary(found: Diagnosis) -> str:
    from collections import Counter

    numbers = Counter(str(finding.severity) for finding in found.findings)
    if not numbers:
        return "no findings"
    return ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for name, count in numbers.items())
