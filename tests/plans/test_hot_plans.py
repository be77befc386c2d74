"""What the hot verbs touch on a big database on PostgreSQL: plans and bounds, taken from the store's own sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.plans import big
from tests.servers.postgres import PostgresServers
from tests.waiting import PATIENCE
from windlass.features import Store
from windlass.model import Completed, JobFilter, Lease, NewJob, Released, State
from windlass.store.database import Row
from windlass.store.jobs.holder import Holder
from windlass.store.jobs.low_water import LANES, LowWaterMarks, Scan
from windlass.store.jobs.outcome_rows import finish_columns

pytestmark = [pytest.mark.older_postgres, pytest.mark.timing]

SIZES = (1, 10, 100, 500)


def rows_bound(n: int) -> int:
    """Rows of `job` that a claim or a finish of n may look at: picked, updated, and a few for luck."""
    return 10 + 4 * n


def buffers_bound(n: int) -> int:
    """Pages it may touch: two index descents and two heap visits a row, and the side tables once."""
    return 60 + 8 * n


NO_CLAIM = dict.fromkeys(("phases", "limits", "startings", "quiets", "suspects", "marks"), "{}")

# What a list may look at for a page of 50 (51 are read, of each partition).
LIST_ROWS = 51 * (big.DAYS + 1)

# Lists that walk past everything that is not theirs: there is no index that knows the state. Each has its measured time
# at a million rows; whoever adds an index takes the line out.
UNBOUNDED_LISTS = {
    "waiting": "walks job_later by id past every scheduled job (226 ms)",
    "queued": "its second half looks for inbox rows in job_later in the same way (206 ms)",
    "processing": "walks job by id past every queued job (243 ms); the claim rows would lead to them",
}


class Watched(big.Explained):
    """Remembers the last call of every verb, to be explained with the same parameters."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.calls: dict[str, dict[str, object]] = {}

    def run(self, verb: str, **parameters: object) -> list[Row]:
        self.calls[verb] = parameters
        return super().run(verb, **parameters)

    read = run

    def again(self, verb: str, **changed: object) -> big.Plan:
        (plan,) = self.explain(verb, **self.calls[verb] | changed)
        return plan


ROWS = [
    pytest.param(100_000, id="100k"),  # ten times and more what any bound here allows
    pytest.param(1_000_000, id="1M", marks=pytest.mark.long),
]


@pytest.fixture
def database(pg_servers: PostgresServers, rows: int) -> Iterator[str]:
    databases = pg_servers.get()
    url = databases.fresh()
    big.fill(url, rows)
    yield url
    databases.drop(url)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a hang: three million rows take a busy machine minutes
@pytest.mark.parametrize("rows", ROWS)
def test_hot_verbs_touch_a_bounded_number_of_rows_beside_many(database: str, rows: int) -> None:
    """Beside ``rows`` queued, scheduled and ended jobs each and a tenth as many processing: claims and finishes of n go through job_ready,
    the primary key and row addresses and stay within bounds linear in n; promotion, heartbeats, recovery, look-ups and
    lists stay within constant bounds; nothing reads a whole table."""
    watched = Watched(database)
    store = Store(watched)
    problems: list[str] = []

    def expect(what: str, is_true: bool, plan: big.Plan) -> None:
        if not is_true:
            seen = {
                t: (plan.touched(t), sorted(plan.ways(t))) for t in ("job", "job_later", "job_done", "claim")
            }
            problems.append(f"{what}: {plan.buffers} buffers, {plan.milliseconds} ms, {seen}")

    try:
        holder = store.join()
        hold_the_clock_of_the_marks(holder)
        first_scan_walks_the_processing_rows(watched, holder, big.processing_of(rows), expect)
        for n in SIZES:
            claims_and_finishes_are_bounded(watched, holder, n, expect)
        other_duties_are_bounded(watched, store, holder, big.processing_of(rows), expect)
        lists_are_bounded(watched, store, expect)
        store.close()
        claims_are_hot(database, problems)
    finally:
        store.close()
    assert not problems, "\n".join(problems)


Expect = Callable[[str, bool, big.Plan], None]


def has_no_seq_scan(plan: big.Plan, *tables: str) -> bool:
    """No table is read from end to end; partitions without a row may be, that costs nothing."""
    return not any(
        node["Node Type"] == "Seq Scan" and node["Actual Rows"] + node.get("Rows Removed by Filter", 0) > 0
        for table in tables
        for node in plan.scans(table)
    )


def hold_the_clock_of_the_marks(holder: Holder) -> None:
    """Scans start at the beginning every half second, however long ago that half second was planned for: on a slow machine between
    any two calls. With a clock that stands still they do so at the first call and after a nudge alone."""
    holder._marks[big.PHASE] = LowWaterMarks(LANES, monotonic=lambda: 0.0)


def reach_the_mark(holder: Holder) -> None:
    """Claim one job from the beginning where that is due, so that the next scan starts at the mark."""
    if holder._marks[big.PHASE].plan()[0] is Scan.FULL:
        assert len(holder.claim(big.PHASE, 1)) == 1
    assert holder._marks[big.PHASE].plan()[0] is Scan.MARK


def claim_from_the_mark(holder: Holder, n: int) -> list[Lease]:
    reach_the_mark(holder)
    claimed = list(holder.claim(big.PHASE, n))
    assert len(claimed) == n
    return claimed


def first_scan_walks_the_processing_rows(
    watched: Watched, holder: Holder, processing: int, expect: Expect
) -> None:
    """The data is what it should be: a scan from the beginning meets all processing rows, the next one none."""
    assert len(holder.claim(big.PHASE, 1)) == 1
    whole = watched.again("step")
    expect("a full scan meets the processing rows", whole.touched("job") >= processing, whole)
    expect("a full scan uses job_ready", whole.ways("job") == {"job_ready", "Tid Scan"}, whole)


def claims_and_finishes_are_bounded(watched: Watched, holder: Holder, n: int, expect: Expect) -> None:
    leases = claim_from_the_mark(holder, n)
    claim = watched.again("step")
    expect(
        f"claim of {n}: its index, then row addresses", claim.ways("job") == {"job_ready", "Tid Scan"}, claim
    )
    expect(f"claim of {n}: rows", n <= claim.touched("job") <= rows_bound(n), claim)
    expect(f"claim of {n}: buffers", claim.buffers <= buffers_bound(n), claim)

    holder.step()  # makes no claim: the statement as a recorder without room sends it
    ends = {**finish_columns([Completed(lease) for lease in leases]), "expected": n}
    finish = watched.again("step", **ends, **NO_CLAIM)
    # The addresses are those of claimed rows: none.
    expect(f"finish of {n}: by primary key", finish.ways("job") == {"job_pkey", "Tid Scan"}, finish)
    expect(f"finish of {n}: rows", n <= finish.touched("job") <= rows_bound(n), finish)
    expect(f"finish of {n}: buffers", finish.buffers <= buffers_bound(n), finish)

    both = watched.again("step", **ends)
    expect(f"finish and claim of {n}: ways", both.ways("job") == {"job_ready", "job_pkey", "Tid Scan"}, both)
    expect(f"finish and claim of {n}: rows", both.touched("job") <= 2 * rows_bound(n), both)
    expect(f"finish and claim of {n}: buffers", both.buffers <= 2 * buffers_bound(n), both)
    holder.record([Released(lease) for lease in leases])


def other_duties_are_bounded(
    watched: Watched, store: Store, holder: Holder, processing: int, expect: Expect
) -> None:
    leases = claim_from_the_mark(holder, 100)
    store.upkeep.promote(100)
    plan = watched.again("promote")
    expect("promote: index of due jobs", plan.ways("job_later") == {"job_later_due"}, plan)
    expect("promote: nothing due is nothing read", plan.buffers <= 20, plan)

    holder.nudge(big.PHASE)
    assert holder.look([big.PHASE, "nothing"]) == {big.PHASE}
    plan = watched.again("ready.phases")
    expect("look: from the beginning it meets the processing rows", plan.touched("job") > processing, plan)
    reach_the_mark(holder)
    assert holder.look([big.PHASE, "nothing"]) == {big.PHASE}
    plan = watched.again("ready.phases")
    expect("look: from the marks through job_ready", plan.ways("job") == {"job_ready"}, plan)
    expect("look: rows", plan.touched("job") <= rows_bound(10), plan)
    expect("look: buffers", plan.buffers <= buffers_bound(20), plan)

    # A claim across lanes, the worst for whoever looks its jobs up by range.
    store.enqueue([NewJob(kind=big.PHASE, priority=priority) for priority in (9, 9)])
    holder.nudge(big.PHASE)
    mixed = holder.claim(big.PHASE, 100)
    assert len({lease.priority for lease in mixed}) == 2

    holder.beat()
    for verb, changed in (
        ("beat", {}),
        ("cancels", {}),
        ("agenda", {"own": None}),
        ("recover.due", {"own": None}),
        ("recover.declare_dead", {"own": None}),
        ("recover.pick", {"tokens": [mixed[0].token], "limit": 500}),
        ("recover.pick", {"tokens": None, "limit": 500}),
        ("recover.sweep", {}),
        ("unclaim", {"tokens": [mixed[0].token], "instance": holder.id}),
    ):
        if verb not in watched.calls:
            watched.run(verb, **changed)
        plan = watched.again(verb, **changed)
        expect(f"{verb}: no whole table", has_no_seq_scan(plan, "job", "job_later", "job_done"), plan)
        expect(f"{verb}: rows", plan.touched("job") <= 1000, plan)
        expect(f"{verb}: buffers", plan.buffers <= 2500, plan)

    holder.start(leases)
    store.jobs.get(leases[0].id)
    for verb in ("start", "get"):
        plan = watched.again(verb)
        expect(f"{verb}: no whole table", has_no_seq_scan(plan, "job", "job_later", "job_done"), plan)
        expect(f"{verb}: rows", plan.touched("job") <= rows_bound(100), plan)
    store.phases.counts()
    plan = watched.again("counts")
    expect("counts touch no job", not any(plan.scans(t) for t in ("job", "job_later", "job_done")), plan)
    assert store.phases.oldest()[big.PHASE] > 0
    plan = watched.again("oldest")
    expect("oldest: the head of the queue", plan.ways("job") == {"job_ready"}, plan)
    expect(
        "oldest: rows", plan.touched("job") <= 2 * processing, plan
    )  # what is held is passed, what is queued is not


def lists_are_bounded(watched: Watched, store: Store, expect: Expect) -> None:
    unbounded = set()
    for state in State:
        watched.calls = {verb: call for verb, call in watched.calls.items() if not verb.startswith("list.")}
        store.jobs.list(JobFilter(state=state))
        for verb in [verb for verb in watched.calls if verb.startswith("list.")]:
            plan = watched.again(verb)
            expect(
                f"list {state}: no whole table", has_no_seq_scan(plan, "job", "job_later", "job_done"), plan
            )
            if sum(plan.touched(table) for table in ("job", "job_later", "job_done")) > LIST_ROWS:
                unbounded.add(str(state))
    assert unbounded == UNBOUNDED_LISTS.keys()


def claims_are_hot(database: str, problems: list[str]) -> None:
    """A claim changes no indexed column and finds room on its page: at least 95 % of its updates are HOT."""
    with psycopg.connect(database, autocommit=True) as connection:
        look = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'windlass' AND relname = 'job'"
        deadline = time.monotonic() + PATIENCE
        while True:  # sessions report what they did with a delay, at the latest when they end
            updated, hot = connection.execute(look).fetchone() or (0, 0)
            if updated >= sum(SIZES) or time.monotonic() > deadline:
                break
            time.sleep(0.05)
    if updated < sum(SIZES) or hot < 0.95 * updated:
        problems.append(f"claims are not HOT: {hot} of {updated}")
