"""``python -m chaos [NAME …]``: break things on purpose and count what it cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from chaos.bed import Bed, discard, scratch
from chaos.catalogue import NAMES, conduct, database, experiment
from chaos.findings import Findings, write
from chaos.profile import PLAIN, PROFILES

DIALECTS = ("postgres", "sqlite")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--short", is_flag=True, help="The quick forms, as the test suite runs them.")
@click.option("--on", "dialects", multiple=True, type=click.Choice(DIALECTS), help="Only on this database.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default=PLAIN,
    show_default=True,
    help="How PostgreSQL is set. Hostile: short time-outs, German dates, SERIALIZABLE, a role that owns nothing.",
)
@click.option("--seed", type=int, help="Repeat a run's random choices.")
@click.option("--keep", is_flag=True, help="Keep ledgers and logs of runs that passed, too.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def main(
    names: Sequence[str],
    short: bool,
    dialects: Sequence[str],
    profile: str,
    seed: int | None,
    keep: bool,
    output: Path | None,
) -> None:
    """Run experiments (all, without a NAME): real workers, real kills, and a ledger of what was lost or doubled.

    Ends with 1 if a promise was broken. Experiments: kill, storm, deaths, poison, cut, freeze, block, term, restart, bad, children,
    pipeline, chunks, cancel, cron.
    """
    for name in names:
        if name not in NAMES:
            raise click.UsageError(f"there is no experiment {name!r}; there are: {', '.join(NAMES)}")
    runs: list[Findings] = []
    for name in names or NAMES:
        for dialect in dialects or DIALECTS:
            if dialect in experiment(name).STORES:
                runs.append(_run(name, dialect, profile, short=short, seed=seed, keep=keep))
                print(runs[-1].table(), flush=True)
                if output is not None:
                    write(output, runs)
    violations = [line for run in runs for line in run.violations]
    print(f"\n{len(runs)} runs, {len(violations)} violations")
    for line in violations:
        print(f"  {line}")
    sys.exit(1 if violations else 0)


def _run(name: str, dialect: str, profile: str, *, short: bool, seed: int | None, keep: bool) -> Findings:
    folder = scratch()
    began = time.monotonic()
    print(f"{name} on {dialect} …", file=sys.stderr, flush=True)
    with (
        database(dialect, folder, profile) as (url, server),
        Bed(url, folder, server=server, seed=seed) as bed,
    ):
        findings = conduct(name, bed, short=short)
    findings.note("seconds", round(time.monotonic() - began, 1))
    if keep or findings.violations:
        print(f"ledger and logs are in {folder}", file=sys.stderr, flush=True)
    else:
        discard(folder)
    return findings


if __name__ == "__main__":
    main()
