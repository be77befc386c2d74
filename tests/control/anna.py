"""What belongs to Anna: jobs in every state, with an output, log lines, a progress, an error, a stack and jobs that wait for them; an operation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from tests.control.conftest import ANNA
from windlass import App, NewJob
from windlass.features import Store
from windlass.job_logs.lines import LogLine, Pending
from windlass.model import After, JobError, Output
from windlass.operations.request import RequestState


@dataclass(frozen=True)
class Belongings:
    """Ids. ``failed`` has a progress, log lines and an error, ``done`` a result and an output, ``running`` a stack; ``follower`` waits for ``queued``
    and ``running``, as the last job of a batch does."""

    failed: str
    queued: str
    cancelled: str
    done: str
    running: str
    follower: str
    operation: str

    @property
    def ids(self) -> list[str]:
        return [getattr(self, one.name) for one in fields(Belongings)]


@contextmanager
def belongings(app: App, store: Store, canary: str, reason: str) -> Iterator[Belongings]:
    """Makes what belongs to Anna, each with the canary in its payload. While the block runs, the instance of her running job responds to requests."""
    one = NewJob(kind="welcome", args={"text": canary}, principal=ANNA)
    failed, queued, cancelled, done, running = (made.id for made in store.enqueue([one] * 5))
    after = [After(queued), After(running)]
    (follower,) = store.enqueue([NewJob(kind="summary", after=after, principal=ANNA)])
    holder, writes = store.join(), store.writes()
    leases = {job: holder.claim_one(job) for job in (failed, done, running)}
    assert None not in leases.values()
    lease = leases[failed]
    assert lease is not None
    writes.checkpoint(lease, done=1, total=2, position={"at": canary})
    line = LogLine(datetime.now(UTC), "INFO", "shop", canary)
    store.logs.put({(failed, lease.token): Pending(attempt=1, phase="welcome", lines=[line])})
    holder.fail(lease, JobError(type="ValueError", code="bad", message=canary, traceback=f"line: {canary}"))
    lease = leases[done]
    assert lease is not None
    writes.put_output(lease, {"text": canary})
    output: Output = writes.put_output(lease, {"text": canary}, name="welcome")
    assert output.created
    holder.complete(lease, result=canary)
    anna = app.acting_as(ANNA)
    anna.jobs.cancel(cancelled, reason)
    operation = anna.jobs.retry_many(f"state:failed kind:nothing args.text:{canary}", reason=reason)
    over = threading.Event()

    def respond() -> None:
        while not over.wait(0.02):
            for request in store.requests.asked(holder.id):
                store.requests.note(request.id, RequestState.DONE, f"in welcome: {canary}")

    instance = threading.Thread(target=respond, daemon=True)
    instance.start()
    try:
        yield Belongings(failed, queued, cancelled, done, running, follower.id, operation.id)
    finally:
        over.set()
        instance.join()
