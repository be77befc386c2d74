"""``python -m bench.peers``: the peers by themselves, for trying them out."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from bench import peers
from bench.report import Row, say, show
from bench.server import postgres, version


@click.command()
@click.option("--peer", "names", multiple=True, type=click.Choice(peers.NAMES), help="Which; all by default.")
@click.option("--jobs", default=5_000, show_default=True, help="Jobs of a drain and of a bulk enqueue.")
@click.option("--processes", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="How long jobs are enqueued one by one.")
@click.option("--samples", default=100, show_default=True, help="Samples of a latency.")
@click.option("--json", "output", type=click.Path(path_type=Path), help="Write the figures to a file, too.")
def main(
    names: tuple[str, ...],
    jobs: int,
    processes: tuple[int, ...],
    seconds: float,
    samples: int,
    output: Path | None,
) -> None:
    """Measure peers, each on a fresh database of one durable server or in a fresh folder."""
    prepared = peers.prepare(names or peers.NAMES)
    rows: list[Row] = [
        {"peer": name, "what": "-", "wrong": reason} for name, reason in prepared.missing.items()
    ]
    with postgres() as url, tempfile.TemporaryDirectory(prefix="windlass-peers-") as folder:
        say(f"PostgreSQL {version(url)}, fsync on")
        for peer in prepared.peers:
            place = url if peer.database == "postgresql" else folder
            say(f"{peer.title}: {peer.definition.settings}")
            rows.append(peer.measure_enqueue(place, seconds))
            rows.append(peer.measure_bulk(place, jobs))
            rows += [peer.measure_drain(place, jobs, count) for count in processes]
            rows.append(peer.measure_latency(place, samples))
    show("Peers, no-op jobs of 100 B", rows, output)


if __name__ == "__main__":
    main()
