"""``python -m tests.api.fuzz``: see ``./dev fuzz --help``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click

from bench.server import postgres
from tests.api.fuzz.run import fuzz
from tests.api.fuzz.seeds import NEVER
from tests.api.fuzz.served import served

DATABASES = ("sqlite", "postgresql")


@click.command()
@click.option("--cases", default=20, show_default=True, help="Requests of one operation in each phase.")
@click.option("--seed", default=1, show_default=True, help="Repeats the choices of a run.")
@click.option("--on", "databases", multiple=True, type=click.Choice(DATABASES), help="Only on this database.")
@click.option("--only", multiple=True, metavar="OPERATION", help="Only these operations, by their ids.")
def main(cases: int, seed: int, databases: tuple[str, ...], only: tuple[str, ...]) -> None:
    """Send requests made from the OpenAPI document of the API: valid and invalid, in sequences, with and without credentials.

    Ends with 1 if a response had a status of 500 or more, was not documented, or ignored that there were no credentials, or if an operation
    accepted no request.
    """
    is_good = True
    for name in databases or DATABASES:
        with _database(name) as url, served(url) as server:
            found = fuzz(server, cases=cases, seed=seed, only=only)
        for failure in found.failures:
            print(f"\n{failure}")
        phases = ", ".join(f"{count:,} {phase}" for phase, count in found.requests.items())
        print(
            f"\n{name}: {found.requests.total():,} requests ({phases}) of {len(found.called)} operations, {len(found.failures)} failures"
        )
        print(f"{len(found.accepted)} operations accepted a request")
        for operation in sorted(NEVER.keys() & (found.called - found.accepted)):
            print(f"not {operation}: {NEVER[operation]}")
        left = found.never_accepted()
        for operation, statuses in left.items():
            print(f"never accepted: {operation} ({statuses})")
        is_good = is_good and not found.failures and not left
    sys.exit(0 if is_good else 1)


@contextmanager
def _database(name: str) -> Iterator[str]:
    if name == "postgresql":
        with postgres() as url:
            yield url
    else:
        with tempfile.TemporaryDirectory(prefix="windlass-fuzz-") as folder:
            yield f"sqlite:///{folder}/jobs.db"


main()
