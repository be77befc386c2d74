"""``python -m bench NAME``: one module per measurement."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.group(invoke_without_command=True)
@click.option(
    "--peers",
    "names",
    default="",
    metavar="NAME,…",
    help="Measure these beside it, each in an environment of its own that is made on first use.",
)
@click.option("--short", is_flag=True, help="A quick form: shows that it works, the figures mean nothing.")
@click.option("--huge", is_flag=True, help="Also with five million jobs queued.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the claims to a file, too.")
@click.pass_context
def main(context: click.Context, names: str, short: bool, huge: bool, output: Path | None) -> None:
    """Measure Windlass. Figures are ratios of one run; the machine's load shows in them.

    Without a command: everything of the engine, on both databases. Peers there are: pgqueuer, procrastinate, graphile-worker
    (needs Node), huey, huey-quiet, huey-fsync.
    """
    if context.invoked_subcommand is not None:
        return
    from dataclasses import replace

    from bench import compare

    scale = compare.SHORT if short else compare.Scale()
    if huge:
        scale = replace(scale, backlogs=(*scale.backlogs, 5_000_000))
    wanted = [name for name in names.split(",") if name]
    sys.exit(0 if compare.run(wanted, scale, output) or short else 1)


@main.command()
@click.option("--jobs", default=1_000_000, show_default=True, help="Finished jobs to prune.")
@click.option("--seconds", default=8.0, show_default=True, help="How long each rate is measured.")
@click.option("--batch", default=100, show_default=True, help="Jobs per step.")
@click.option("--short", is_flag=True, help="A quick form: 20,000 jobs, half a second.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def prune(jobs: int, seconds: float, batch: int, short: bool, output: Path | None) -> None:
    """Claims while a million finished jobs are pruned: at most 1.5 times slower."""
    from bench import prune as measurement

    if short:
        jobs, seconds = 20_000, 0.5
    sys.exit(0 if measurement.run(jobs=jobs, seconds=seconds, batch=batch, output=output) or short else 1)


@main.command()
@click.option("--seconds", default=2.0, show_default=True, help="How long each rate is measured.")
@click.option(
    "--snapshot", default=10.0, show_default=True, help="How long a snapshot is held while jobs drain."
)
@click.option("--short", is_flag=True, help="A quick form: tenths of a second.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def store(seconds: float, snapshot: float, short: bool, output: Path | None) -> None:
    """Enqueue, claim and finish by batch size on both databases; at most 1,000 B of WAL a job."""
    from bench import store as measurement

    if short:
        seconds, snapshot = 0.1, 0.2
    sys.exit(0 if measurement.run(seconds=seconds, snapshot=snapshot, output=output) or short else 1)


@main.command()
@click.option("--jobs", default=60_000, show_default=True, help="Jobs of the unlimited phase, each time.")
@click.option("--rounds", default=5, show_default=True, help="How often each case is measured, in turns.")
@click.option("--workers", default=4, show_default=True, help="Processes that serve both phases.")
@click.option("--short", is_flag=True, help="A quick form: 2,000 jobs, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def limits(jobs: int, rounds: int, workers: int, short: bool, output: Path | None) -> None:
    """An unlimited phase beside one with a limit of 3 per key: at least 0.9 of its rate without the limit."""
    from bench import limits as measurement

    if short:
        jobs, rounds = 2_000, 1
    is_kept = measurement.run(jobs=jobs, rounds=rounds, workers=workers, output=output)
    sys.exit(0 if is_kept or short else 1)


@main.command()
@click.option("--jobs", default=20_000, show_default=True, help="Jobs to count over.")
@click.option("--short", is_flag=True, help="A quick form: 1,000 jobs.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def counted(jobs: int, short: bool, output: Path | None) -> None:
    """Statements, WAL, rows visited and Python calls of a plain job: counts, which a busy machine does not change."""
    from bench import counted as measurement

    measurement.run(jobs=1_000 if short else jobs, output=output)


if __name__ == "__main__":
    main()
