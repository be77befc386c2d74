"""A long job in chunks whose worker is killed again and again: each chunk's effect once, progress that never goes back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

from chaos.bed import Bed
from chaos.checker import rows
from chaos.findings import Findings
from chaos.settings import QUICK, Leases
from chaos.shapes import CREATE_STEPS

STORES = ("postgres", "sqlite")


@dataclass(frozen=True, slots=True)
class Plan:
    chunks: int = 1000
    size: int = 1000
    ms: float = 10.0
    kills: int = 20
    leases: Leases = QUICK


LONG = Plan()
SHORT = Plan(chunks=150, kills=3)


def run(bed: Bed, plan: Plan, findings: Findings) -> None:
    """One worker after the other is killed while it works; the next goes on at the checkpoint."""
    bed.query(CREATE_STEPS)
    settings = {**plan.leases.settings, "death_cap": 1000}
    (job,) = bed.enqueue(
        "ledger", [{"chunks": plan.chunks, "size": plan.size, "ms": plan.ms}], max_attempts=1000
    )
    watch = _Watch(bed, job)
    kills, memory = 0, []
    for number in range(plan.kills + 1):
        worker = bed.worker(settings=settings)
        target = int(plan.chunks * plan.size * (number + 1) / (plan.kills + 2))
        bed.until(lambda: watch.done >= target or watch.is_over(), 120, f"{target:,} records are done")  # noqa: B023
        memory.append(worker.rss_mb())
        if number < plan.kills:
            time.sleep(bed.random.random() * 0.1)
            worker.kill()
            kills += 1
    findings.holds("drained", True, bed.drained(quiet=120))
    watch.stop()
    bed.workers[-1].stop()
    counts = Counter(row[0] for row in bed.query("SELECT number FROM chaos_step"))
    found = rows(bed)[job]
    findings.holds("completed", found.state, found.state == "completed")
    findings.none("chunks twice", [number for number, count in counts.items() if count > 1])
    findings.none("chunks missing", [number for number in range(plan.chunks) if not counts[number]])
    findings.none("progress went back", watch.setbacks)
    findings.least("looks at progress", watch.looks, 20)
    findings.least("workers killed", kills, plan.kills)
    findings.least("handlers started", len(bed.ledger.starts()), plan.kills)
    findings.note("records", plan.chunks * plan.size)
    findings.most("memory of the last worker over the first, MB", memory[-1] - memory[0], 20)


class _Watch:
    """Looks at a job's progress ten times a second."""

    def __init__(self, bed: Bed, job: str) -> None:
        self._bed = bed
        self._job = job
        self.done = 0
        self.looks = 0
        self.setbacks: list[tuple[int, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        return self._bed.store.jobs.get(self._job).state.is_final

    def stop(self) -> None:
        self._over.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._over.wait(0.1):
            progress = self._bed.store.jobs.progress(self._job)
            if progress is None:
                continue
            self.looks += 1
            if progress.done < self.done:
                self.setbacks.append((self.done, progress.done))
            self.done = progress.done
