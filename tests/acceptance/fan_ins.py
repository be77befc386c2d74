"""Many fan-ins whose last parents end at the same instant in different processes: each child once, none stranded (I-18).

    python -m tests.acceptance.fan_ins [--groups 2000] [--processes 4] [--slot 0.008] [--url URL ...]

Half of the groups wait directly (``after``), half are made by rules (``when_all``); widths are 2 to 50. In every group one parent per
process is the last of its process, and these end in the same time slot. Of the groups

    some have a parent that fails or is cancelled, under each policy
    of these, some are retried afterwards, and end again at the same instant
    some are attached late: the child is enqueued, or the rule is defined, when parents have ended already, or while they do

What should come of each group is computed here, from its policy and its parents' fates alone, and compared with what is there. Without
--url it runs on a SQLite file and on a PostgreSQL of its own, with fsync on.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance import processes
from windlass.features import Store, open_store
from windlass.model import After, DependencyPolicy, Job, JobFilter, NewJob, State
from windlass.model.rule import Rule

Process = subprocess.Popen[str]
WIDTHS = (2, 3, 5, 8, 13, 21, 34, 50)
"""Of rules, whose parents are kinds; direct dependencies have every width between."""


@dataclass
class Group:
    """One fan-in: who its parents are, what becomes of them, and when its child comes to know them."""

    g: int
    is_rule: bool
    width: int
    policy: DependencyPolicy
    fate: str  # complete, fail, cancel: of one parent, the others complete
    retried: bool
    attach: str  # first, late (some parents have ended), race (while the last end), end (all have ended)
    parents: list[str] = field(default_factory=list)
    child: str | None = None

    @property
    def rule(self) -> str:
        return f"{self.policy}-{self.width}-{self.attach}"

    @property
    def expected(self) -> State | None:
        """The child's state when everything is over; None where there is none."""
        if self.fate == "complete" or self.retried or self.policy is DependencyPolicy.RUN:
            return State.COMPLETED
        if self.is_rule:
            return None
        return State.WAITING if self.policy is DependencyPolicy.WAIT else State.CANCELLED


@dataclass
class Report:
    """What was found."""

    groups: int
    parents: int
    seconds: float
    made: int
    problems: list[str]
    spread: Counter[str]

    def __str__(self) -> str:
        kinds = ", ".join(f"{n} {what}" for what, n in sorted(self.spread.items()))
        verdict = "each child once, none stranded" if not self.problems else f"{len(self.problems)} PROBLEMS"
        return f"{self.groups} groups, {self.parents} parents, {self.made} children in {self.seconds:.0f} s: {verdict}\n  ({kinds})"


def plan(groups: int, seed: int) -> list[Group]:
    """Groups of every sort, mixed."""
    chance = random.Random(seed)
    made = []
    for g in range(groups):
        is_rule = g % 2 == 0
        fate = chance.choices(("complete", "fail", "cancel"), (6, 2, 2))[0]
        made.append(
            Group(
                g,
                is_rule,
                chance.choice(WIDTHS) if is_rule else chance.randint(2, 50),
                chance.choice(list(DependencyPolicy)),
                fate,
                retried=fate != "complete" and chance.random() < 0.5,
                attach=chance.choices(("first", "late", "race", "end"), (7, 1, 1, 1))[0],
            )
        )
    return made


def rules_of(groups: Sequence[Group], *attach: str) -> list[Rule]:
    """The rules these groups need."""
    found = {group.rule: group for group in groups if group.is_rule and group.attach in attach}
    return [
        Rule(
            name=name,
            parents=tuple(f"{name}.{n}" for n in range(group.width)),
            create="child",
            phase="child",
            key=("args.g",),
            args={"g": "args.g"},
            policy=group.policy,
        )
        for name, group in found.items()
    ]


def parents_of(group: Group, count: int, chance: random.Random) -> list[NewJob]:
    """One last parent for each process, as far as there are enough; the others end early, anywhere. Retried parents are last ones."""
    finals = min(group.width, count)
    places = [f"final-{n}" for n in range(finals)] + [
        f"early-{chance.randrange(count)}" for _ in range(group.width - finals)
    ]
    bad = chance.randrange(finals if group.retried else group.width)
    return [
        NewJob(
            kind=f"{group.rule}.{n}" if group.is_rule else "parent",
            phase=place,
            args={"g": group.g, "slot": group.g, "fate": group.fate if n == bad else "complete"},
        )
        for n, place in enumerate(places)
    ]


def attach(store: Store, groups: Sequence[Group]) -> None:
    """Enqueue the children that wait directly."""
    for start in range(0, len(groups), 50):
        some = groups[start : start + 50]
        answers = store.enqueue(
            [
                NewJob(
                    kind="after",
                    args={"g": group.g},
                    after=[After(parent, group.policy) for parent in group.parents],
                )
                for group in some
            ]
        )
        for group, answer in zip(some, answers, strict=True):
            group.child = answer.id


def show(url: str, groups: int, count: int, slot: float, seed: int = 1) -> Report:
    """Run it all on one database."""
    began = time.monotonic()
    chance = random.Random(seed)
    planned = plan(groups, seed)
    direct = [group for group in planned if not group.is_rule]
    with open_store(url) as store:
        store.upkeep.maintain()
        since = store.now()
        store.rules.define(rules_of(planned, "first"))
        store.rules.catch_up()
        for start in range(0, len(planned), 20):
            some = planned[start : start + 20]
            jobs = [parents_of(group, count, chance) for group in some]
            ids = iter([answer.id for answer in store.enqueue([job for part in jobs for job in part])])
            for group, part in zip(some, jobs, strict=True):
                group.parents = [next(ids) for _ in part]
        attach(store, [group for group in direct if group.attach == "first"])
        with processes.together(
            "tests.acceptance.fan_in_worker", [(url, n) for n in range(count)]
        ) as running:
            everyone(running, "early")
            attach(store, [group for group in direct if group.attach == "late"])
            store.rules.define(rules_of(planned, "late"))
            store.rules.catch_up()
            finals(running, store, planned, slot)
            attach(store, [group for group in direct if group.attach == "end"])
            store.rules.define(rules_of(planned, "end"))
            store.rules.catch_up()
            for rule in rules_of(planned, "late", "race", "end"):
                store.rules.backfill(rule.name, since)
            while store.dependencies.link() or sum(store.upkeep.promote().values()):
                pass
            retry(store, planned)
            again(running, slot, len(planned))
            ran = [json.loads(answer) for answer in everyone(running, "children")]
        problems = judge(store, planned, [item for part in ran for item in part])
        return Report(
            len(planned),
            sum(len(group.parents) for group in planned),
            time.monotonic() - began,
            sum(len(part) for part in ran),
            problems,
            Counter(
                group.attach if group.fate == "complete" else f"{group.fate}/{group.policy}"
                for group in planned
            )
            + Counter(retried=sum(group.retried for group in planned)),
        )


def everyone(running: Sequence[Process], line: str) -> list[str]:
    """Tell all processes something; their answers."""
    for one in running:
        processes.tell(one, line)
    answers = [processes.hear(one) for one in running]
    assert all(answers), "a process died"
    return answers


def finals(running: Sequence[Process], store: Store, planned: Sequence[Group], slot: float) -> None:
    """The last parents of each group end in its slot, wherever they are; some children are attached in that very slot."""
    assert set(everyone(running, f"final {slot}")) == {"holding"}
    start = time.time() + 0.3
    for one in running:
        processes.tell(one, repr(start))
    racing = [group for group in planned if group.attach == "race"]
    defined: set[str] = set()
    for group in racing:
        time.sleep(max(0.0, start + group.g * slot - time.time()))
        if not group.is_rule:
            attach(store, [group])
        elif group.rule not in defined:
            defined.add(group.rule)
            store.rules.define(rules_of([group], "race"))
            store.rules.catch_up()
    assert {processes.hear(one) for one in running} == {"done"}


def retry(store: Store, planned: Sequence[Group]) -> None:
    """Bring back what failed, and with it what was cancelled because of it."""
    for group in planned:
        if group.retried:
            for parent in group.parents:
                if store.jobs.get(parent).state in (State.FAILED, State.CANCELLED):
                    store.jobs.retry(parent, dependents=True)


def again(running: Sequence[Process], slot: float, slots: int) -> None:
    """The retried ones end."""
    assert set(everyone(running, f"final {min(slot, 3.0 / slots)}")) == {"holding"}
    for one in running:
        processes.tell(one, repr(time.time()))
    assert {processes.hear(one) for one in running} == {"done"}


def jobs_of(store: Store, kind: str) -> Iterator[Job]:
    cursor = None
    while True:
        page = store.jobs.list(JobFilter(kind=kind), cursor=cursor, limit=1000)
        yield from page.jobs
        cursor = page.next_cursor
        if cursor is None:
            return


def judge(store: Store, planned: Sequence[Group], ran: Sequence[Sequence[object]]) -> list[str]:
    """What is not as it should be."""
    problems = []
    made: dict[int, list[Job]] = {}
    for job in jobs_of(store, "child"):
        made.setdefault(job.args["g"], []).append(job)
    waiting = {job.id: job for job in jobs_of(store, "after")}
    runs = Counter(str(item[2]) for item in ran)
    still_open = {(seen.rule, seen.key[0]): seen for seen in store.rules.open(limit=10**6)}
    for group in planned:
        jobs = made.get(group.g, []) if group.is_rule else [waiting[group.child or ""]]
        found = [job.state for job in jobs]
        if found != ([] if group.expected is None else [group.expected]):
            problems.append(f"{group}: children are {found}")
        if any(runs[job.id] != (job.state is State.COMPLETED) for job in jobs):
            problems.append(f"{group}: its child ran {[runs[job.id] for job in jobs]} times")
        if group.is_rule:
            seen = still_open.pop((group.rule, group.g), None)
            if (seen is None) != (group.expected is not None):
                problems.append(f"{group}: open: {seen}")
            elif seen is not None and (
                len(seen.missing) != 1 or seen.is_cancelled != (group.policy is DependencyPolicy.CANCEL)
            ):
                problems.append(f"{group}: shown as {seen}")
    problems += [f"nobody's: {key}" for key in still_open]
    held = [phase for phase, counts in store.phases.counts().items() if counts.queued or counts.processing]
    return problems + [f"jobs are left in {phase}" for phase in held]


def databases(urls: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What to run on, one after the other."""
    if urls:
        yield from ((url.partition(":")[0], url) for url in urls)
        return
    from bench.server import postgres

    with tempfile.TemporaryDirectory() as folder:
        yield "SQLite", f"sqlite:///{Path(folder) / 'fan-ins.db'}"
    with postgres() as url:
        yield "PostgreSQL", url


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.acceptance.fan_ins", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument(
        "--slot", type=float, default=0.008, help="seconds from one group's last ends to the next one's"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", action="append", default=[])
    options = parser.parse_args()
    failed = False
    for name, url in databases(options.url):
        report = show(url, options.groups, options.processes, options.slot, options.seed)
        print(f"{name}: {report}", flush=True)
        for problem in report.problems[:20]:
            print(f"  {problem}")
        failed |= bool(report.problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
