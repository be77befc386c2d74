"""Every public call of the control service, with what belongs to Anna as its arguments."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.control.anna import Belongings
from tests.waiting import PATIENCE
from windlass.control.noun import Noun
from windlass.control.service import Control
from windlass.control.submitting import JobOrder, KeyedJobs
from windlass.idempotency.store import RequestKey
from windlass.model import Enqueued


def waiting(belongings: Belongings) -> JobOrder:
    """A job that would wait for Anna's."""
    return JobOrder("welcome", {"text": ""}, {"after": [belongings.queued]})


OWN_KEY = RequestKey("a stranger", "1", "the hash of a body")
"""The key of a request of the caller's own: the API makes it from who the caller is."""
Call = Callable[[Control, Belongings], Any]
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)
CALLS: dict[str, Call] = {
    "jobs.get": lambda c, w: c.jobs.get(w.failed),
    "jobs.list": lambda c, w: c.jobs.list(f"id:{w.failed},{w.queued}"),
    "jobs.iterate": lambda c, w: list(c.jobs.iterate("kind:welcome")),
    "jobs.count": lambda c, w: c.jobs.count("kind:welcome"),
    "jobs.timeline": lambda c, w: c.jobs.timeline(w.failed),
    "jobs.logs": lambda c, w: c.jobs.logs(w.failed),
    "jobs.progress": lambda c, w: c.jobs.progress(w.failed),
    "jobs.outputs": lambda c, w: c.jobs.outputs(w.done),
    "jobs.why": lambda c, w: c.jobs.why(w.failed),
    "jobs.events": lambda c, w: list(c.jobs.events(w.failed, timeout=PATIENCE)),
    "jobs.iterate_async": lambda c, w: asyncio.run(_all(c.jobs.iterate_async("kind:welcome"))),
    "jobs.events_async": lambda c, w: asyncio.run(_all(c.jobs.events_async(w.failed, timeout=PATIENCE))),
    "jobs.cancel": lambda c, w: c.jobs.cancel(w.queued, "no"),
    "jobs.retry": lambda c, w: c.jobs.retry(w.failed),
    "jobs.run_now": lambda c, w: c.jobs.run_now(w.queued),
    "jobs.delete": lambda c, w: c.jobs.delete(w.failed, "no"),
    "jobs.edit": lambda c, w: c.jobs.edit(w.queued, version="x", priority=9),
    "jobs.retry_many": lambda c, w: c.jobs.retry_many("kind:welcome", dry_run=True).matched,
    "jobs.cancel_many": lambda c, w: c.jobs.cancel_many("kind:welcome", reason="no", dry_run=True).matched,
    "jobs.present": lambda c, w: c.jobs.present(w.failed),
    "jobs.stack": lambda c, w: c.jobs.stack(w.running, "it hangs", timeout=PATIENCE),
    "jobs.related": lambda c, w: c.jobs.related(w.queued),
    "jobs.batch": lambda c, w: c.jobs.batch(w.follower),
    "submits.many": lambda c, w: c.submits.many([waiting(w)]),
    "submits.many_async": lambda c, w: asyncio.run(c.submits.many_async([waiting(w)])),
    "submits.batch": lambda c, w: c.submits.batch([w.queued], JobOrder("welcome", {"text": ""})),
    "submits.batch_async": lambda c, w: asyncio.run(
        c.submits.batch_async([w.queued], JobOrder("welcome", {"text": ""}))
    ),
    "submits.keyed": lambda c, w: c.submits.keyed(waiting(w), OWN_KEY),
    "submits.keyed_async": lambda c, w: asyncio.run(c.submits.keyed_async(waiting(w), OWN_KEY)),
    "submits.note_end_async": lambda c, w: asyncio.run(
        c.submits.note_end_async(KeyedJobs([Enqueued(w.queued, created=True)], is_repeat=False), OWN_KEY)
    ),
    "submits.ended_async": lambda c, w: asyncio.run(c.submits.ended_async(w.failed, PATIENCE)),
    "pipelines.list": lambda c, w: c.pipelines.list(),
    "pipelines.get": lambda c, w: c.pipelines.get("welcome"),
    "instances.pools": lambda c, w: c.instances.pools(),
    "overview.ping": lambda c, w: c.overview.ping(),
    "metrics.render": lambda c, w: c.metrics.render(),
    "doctor.settings": lambda c, w: c.doctor.settings(),
    "phases.counts": lambda c, w: c.phases.counts(),
    "phases.oldest": lambda c, w: c.phases.oldest(),
    "phases.paused": lambda c, w: c.phases.paused(),
    "phases.names": lambda c, w: c.phases.names(),
    "phases.pause": lambda c, w: c.phases.pause("welcome", "no"),
    "phases.resume": lambda c, w: c.phases.resume("welcome"),
    "schedules.list": lambda c, w: c.schedules.list(),
    "schedules.get": lambda c, w: c.schedules.get("nightly"),
    "schedules.ticks": lambda c, w: c.schedules.ticks("nightly"),
    "schedules.next_times": lambda c, w: c.schedules.next_times("nightly"),
    "schedules.pause": lambda c, w: c.schedules.pause("nightly", "no"),
    "schedules.resume": lambda c, w: c.schedules.resume("nightly"),
    "schedules.run_now": lambda c, w: c.schedules.run_now("nightly"),
    "schedules.remove": lambda c, w: c.schedules.remove("nightly"),
    "rules.list": lambda c, w: c.rules.list(),
    "rules.get": lambda c, w: c.rules.get("summary"),
    "rules.open": lambda c, w: c.rules.open(),
    "rules.why": lambda c, w: c.rules.why("summary", "x"),
    "rules.remove": lambda c, w: c.rules.remove("summary", "no"),
    "failures.list": lambda c, w: c.failures.list(),
    "history.read": lambda c, w: c.history.read(since=LONG_AGO),
    "instances.list": lambda c, w: c.instances.list(),
    "instances.drain": lambda c, w: c.instances.drain(w.failed, "no"),
    "instances.set_processors": lambda c, w: c.instances.set_processors(w.failed, "welcome", 1),
    "instances.request": lambda c, w: c.instances.request(w.failed),
    "instances.requests": lambda c, w: c.instances.requests(w.failed),
    "instances.wait": lambda c, w: c.instances.wait(w.failed, 0),
    "overview.read": lambda c, w: c.overview.read(),
    "operations.start": lambda c, w: c.operations.start("cancel", "kind:welcome", "no", dry_run=True).matched,
    "operations.get": lambda c, w: c.operations.get(w.operation),
    "operations.list": lambda c, w: c.operations.list(),
    "operations.handle": lambda c, w: c.operations.handle(w.operation).begun,
    "operations.stop": lambda c, w: c.operations.stop(w.operation),
    "operations.wait": lambda c, w: c.operations.wait(w.operation, 0),
    "audit.list": lambda c, w: c.audit.list(),
    "tokens.create": lambda c, w: c.tokens.create("mine", ["admin"]),
    "tokens.list": lambda c, w: c.tokens.list(),
    "tokens.revoke": lambda c, w: c.tokens.revoke("mine"),
    "deploys.mark": lambda c, w: c.deploys.mark("v1"),
    "deploys.list": lambda c, w: c.deploys.list(),
    "doctor.tables": lambda c, w: c.doctor.tables(),
    "doctor.examine": lambda c, w: c.doctor.examine(),
    "events": lambda c, w: c.events(timeout=1),
}


async def _all(found: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in found]


def public_calls() -> set[str]:
    """Every public method of the service and its nouns; async forms that run the sync ones are left out (``off_loop``)."""
    found = {"events"}
    for noun, value in vars(Control).items():
        made = (
            inspect.signature(value.func, eval_str=True).return_annotation if hasattr(value, "func") else None
        )
        if isinstance(made, type) and issubclass(made, Noun):
            found |= {
                f"{noun}.{name}"
                for name, method in inspect.getmembers(made, callable)
                if not name.startswith("_")
                and inspect.isroutine(method)
                and not (name.endswith("_async") and hasattr(method, "__wrapped__"))
            }
    return found
