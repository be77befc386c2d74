"""The stack of a running handler: what a job that seems to hang does now."""

from __future__ import annotations

import time

from windlass.control.given import check_texts
from windlass.control.job_reading import JobReading
from windlass.control.job_views import JobStack as JobStack
from windlass.control.noun import off_loop
from windlass.errors import ActRefusedError, ConfigError
from windlass.model import State
from windlass.operations.request import STACK, RequestState
from windlass.ranges import is_number

READ_EVERY = 0.1
LONGEST_WAIT = 300.0


class JobStacks(JobReading):
    """Asks the instance of a running job where its handler is."""

    def stack(self, job_id: str, reason: str | None = None, *, timeout: float = 10.0) -> JobStack:
        """The stack of the handler of a running job, as its instance finds it: of a thread, or of an async task where it waits.

        Code is shown and no values. It needs the rights to act on the job and to see payload, and is audited. ``ActRefusedError`` if the job
        does not run, runs in a process of its own, or if its instance does not respond within ``timeout`` seconds.
        """
        check_texts(reason=reason)
        if not is_number(timeout, 0, LONGEST_WAIT):
            raise ConfigError("timeout", timeout, f"a number of seconds from 0 to {LONGEST_WAIT:g}")
        self._require_job(job_id)
        job = self._store.jobs.get(job_id)
        self._payload.require("the stack of a running handler")
        spans = self._store.jobs.timeline(job_id) if job.state is State.PROCESSING else ()
        instance = next((span.instance for span in reversed(spans) if span.ended_at is None), None)
        if instance is None:
            raise ActRefusedError(job_id, "stack", job.state, "no instance runs it, so it has no stack")
        record = self._record("job.stack", "job", job_id, reason, after={"instance": instance})
        asked = self._audited(
            record,
            lambda also: self._store.requests.put(
                instance, STACK, actor=self._actor.name, reason=reason, phase=job_id, also=also
            ),
        )
        ends_at = time.monotonic() + timeout
        while not (request := self._store.requests.get(asked)) or not request.state.is_over:
            if time.monotonic() >= ends_at:
                why = f"its instance {instance} did not respond within {timeout:g} s"
                raise ActRefusedError(job_id, "stack", job.state, why)
            time.sleep(READ_EVERY)
        if request.state is RequestState.REFUSED or request.done_at is None:
            raise ActRefusedError(job_id, "stack", job.state, str(request.outcome))
        text = self._payload.value(request.outcome or "")
        return JobStack(job=job_id, phase=job.phase, instance=instance, at=request.done_at, text=text)

    stack_async = off_loop(stack)
