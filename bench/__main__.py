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
@click.option("--jobs", default=20_000, show_default=True, help="Ended jobs to prune, in each round.")
@click.option("--seconds", default=3.0, show_default=True, help="How long each rate is measured.")
@click.option("--rounds", default=3, show_default=True, help="How often each rate is measured, in turns.")
@click.option("--short", is_flag=True, help="A quick form: 3,000 jobs, half a second, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def retention(jobs: int, seconds: float, rounds: int, short: bool, output: Path | None) -> None:
    """A worker that prunes by its settings, with an archive: at least 0.8 of its rate without, and no job is lost."""
    from bench import retention as measurement

    if short:
        jobs, seconds, rounds = 3_000, 0.5, 1
    is_kept = measurement.run(jobs=jobs, seconds=seconds, rounds=rounds, output=output)
    sys.exit(0 if is_kept or short else 1)


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
@click.option("--jobs", default=30_000, show_default=True, help="Jobs of each drain.")
@click.option("--rounds", default=5, show_default=True, help="How often each shape is measured, in turns.")
@click.option("--short", is_flag=True, help="A quick form: 1,000 jobs, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def shapes(jobs: int, rounds: int, short: bool, output: Path | None) -> None:
    """A pipeline of three phases and fifty kinds, beside a plain drain, on both databases."""
    from bench import shapes as measurement

    if short:
        jobs, rounds = 1_000, 1
    measurement.run(jobs=jobs, rounds=rounds, output=output)


@main.command()
@click.argument(
    "checkout",
    required=False,
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
)
@click.option("--jobs", default=20_000, show_default=True, help="Jobs to count over.")
@click.option("--rounds", default=2, show_default=True, help="How often both are counted, in turns.")
@click.option("--short", is_flag=True, help="A quick form: 1,000 jobs, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def counted(checkout: Path | None, jobs: int, rounds: int, short: bool, output: Path | None) -> None:
    """Statements, WAL, rows visited and Python calls of a plain job: counts, which a busy machine does not change. With CHECKOUT, another one
    with its own .venv: beside its counts, none higher by more than its error."""
    from bench import counted as measurement
    from bench import counted_beside
    from bench.versions import NotSetUpError

    if short:
        jobs, rounds = 1_000, 1
    if checkout is None:
        measurement.run(jobs=jobs, output=output)
        return
    try:
        is_kept = counted_beside.run(checkout, jobs=jobs, rounds=rounds, output=output)
    except NotSetUpError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if is_kept or short else 1)


@main.command()
@click.argument("checkout", type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True))
@click.option("--jobs", default=150_000, show_default=True, help="Jobs of a drain and of a bulk enqueue.")
@click.option("--seconds", default=1.0, show_default=True, help="How long jobs are enqueued one at a time.")
@click.option("--rounds", default=10, show_default=True, help="How often both are measured, in turns.")
@click.option("--short", is_flag=True, help="A quick form: 500 jobs, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def versions(
    checkout: Path, jobs: int, seconds: float, rounds: int, short: bool, output: Path | None
) -> None:
    """This checkout beside CHECKOUT, another one with its own .venv: at least 0.97 of its rates."""
    from bench import versions as measurement

    if short:
        jobs, seconds, rounds = 500, 0.1, 1
    try:
        is_kept = measurement.run(checkout, jobs=jobs, seconds=seconds, rounds=rounds, output=output)
    except measurement.NotSetUpError as error:
        raise click.ClickException(str(error)) from error
    sys.exit(0 if is_kept or short else 1)


@main.command()
@click.option(
    "--peers", "names", default="", metavar="NAME,…", help="Measure these beside it: pgqueuer, huey-fsync."
)
@click.option("--rounds", default=5, show_default=True, help="How often each is measured, in turns.")
@click.option("--short", is_flag=True, help="A quick form: one round of tenths of a second.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the claims to a file, too.")
def everyday(names: str, rounds: int, short: bool, output: Path | None) -> None:
    """Starting, submitting one by one, pickup under load, computing, chunks, many processes: each beside its measure."""
    from dataclasses import replace

    from bench import everyday as measurement

    scale = measurement.SHORT if short else replace(measurement.Scale(), rounds=rounds)
    wanted = [name for name in names.split(",") if name]
    sys.exit(0 if measurement.run(wanted, scale, output) or short else 1)


@main.command()
@click.option("--samples", default=4_000, show_default=True, help="Jobs of each measurement.")
@click.option("--rounds", default=5, show_default=True, help="How often both are measured, in turns.")
@click.option("--short", is_flag=True, help="A quick form: 40 jobs, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the claim to a file, too.")
def fairness(samples: int, rounds: int, short: bool, output: Path | None) -> None:
    """Four workers of 5 processors beside one of 20, at 0.8 of what they can do: at most twice its mean wait."""
    from bench import fairness as measurement

    if short:
        samples, rounds = 40, 1
    sys.exit(0 if measurement.run(samples=samples, rounds=rounds, output=output) or short else 1)


@main.command()
@click.option("--callers", default=1000, show_default=True, help="Threads that wait for a result each.")
@click.option("--jobs", default=20_000, show_default=True, help="Jobs of a drain.")
@click.option(
    "--rounds", default=5, show_default=True, help="Drains without and with waiting callers, in turns."
)
@click.option("--short", is_flag=True, help="A quick form: 20 callers, 300 jobs, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def wait(callers: int, jobs: int, rounds: int, short: bool, output: Path | None) -> None:
    """Callers that wait for results: one connection, and a drain beside them keeps 0.9 of its rate."""
    from bench import waiting

    if short:
        callers, jobs, rounds = 20, 300, 1
    sys.exit(0 if waiting.run(callers=callers, jobs=jobs, rounds=rounds, output=output) or short else 1)


@main.command()
@click.option("--watchers", default=50, show_default=True, help="Watchers whose statements are counted.")
@click.option("--samples", default=10, show_default=True, help="Samples that are counted, one a second.")
@click.option("--jobs", default=20_000, show_default=True, help="Jobs of a drain.")
@click.option("--rounds", default=7, show_default=True, help="Drains without and with a watcher, in turns.")
@click.option("--short", is_flag=True, help="A quick form: 5 watchers, 2 samples, 300 jobs, one round.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def watch(watchers: int, samples: int, jobs: int, rounds: int, short: bool, output: Path | None) -> None:
    """Watchers: a drain with one keeps 0.9 of its rate, and fifty send as many statements as one."""
    from bench import watching

    if short:
        watchers, samples, jobs, rounds = 5, 2, 300, 1
    is_kept = watching.run(watchers=watchers, samples=samples, jobs=jobs, rounds=rounds, output=output)
    sys.exit(0 if is_kept or short else 1)


@main.command()
@click.option("--jobs", default=1_000_000, show_default=True, help="Jobs in the database.")
@click.option("--rounds", default=40, show_default=True, help="How often each read is measured.")
@click.option("--only", default="", help="Measure the reads whose names have this text.")
@click.option("--short", is_flag=True, help="A quick form: 20,000 jobs, 3 rounds.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def control(jobs: int, rounds: int, only: str, short: bool, output: Path | None) -> None:
    """Every read of the control service with a million jobs: at most 100 ms at p95, also when nothing is found."""
    from bench import control as measurement

    if short:
        jobs, rounds = 20_000, 3
    sys.exit(0 if measurement.run(jobs=jobs, rounds=rounds, only=only, output=output) or short else 1)


@main.command()
@click.argument("parts", nargs=-1, type=click.Choice(["reads", "submits", "clients", "streams"]))
@click.option("--jobs", default=1_000_000, show_default=True, help="Jobs in the database of the reads.")
@click.option("--seconds", default=60.0, show_default=True, help="How long many clients send requests.")
@click.option("--short", is_flag=True, help="A quick form: 20,000 jobs, ten clients, twenty streams.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def api(parts: tuple[str, ...], jobs: int, seconds: float, short: bool, output: Path | None) -> None:
    """The REST API: reads with a million jobs (100 ms at p95), submits beside enqueue_async (0.5 of its rate), 200 clients for a minute (no error, no
    growth), and submits beside 1,000 streams (twice the p99 at most)."""
    from bench import api as measurement

    scale = measurement.SHORT if short else measurement.Scale(jobs=jobs, minute=seconds)
    sys.exit(0 if measurement.run(parts, scale, output) or short else 1)


@main.command()
@click.option("--jobs", default=1_000_000, show_default=True, help="Jobs in the database.")
@click.option(
    "--minutes", default=10.0, show_default=True, help="How long a page is open beside 1,000 jobs/s."
)
@click.option("--boards", default=50, show_default=True, help="Boards whose statements are counted.")
@click.option("--rounds", default=5, show_default=True, help="How often each page is loaded.")
@click.option("--short", is_flag=True, help="A quick form: 5,000 jobs, three seconds, three boards.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def board(jobs: int, minutes: float, boards: int, rounds: int, short: bool, output: Path | None) -> None:
    """The dashboard: each page usable within 1 s and 150 kB, an open page with a steady heap, and fifty boards with the statements of one."""
    from bench import board as measurement

    seconds = minutes * 60
    if short:
        jobs, seconds, boards, rounds = 5_000, 3.0, 3, 1
    is_kept = measurement.run(jobs=jobs, seconds=seconds, boards=boards, rounds=rounds, output=output)
    sys.exit(0 if is_kept or short else 1)


if __name__ == "__main__":
    main()
