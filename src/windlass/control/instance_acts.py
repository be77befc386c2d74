"""Acting on an instance from elsewhere: drain it, or give a phase of it more or fewer processors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from windlass.control.job_acts import require_reason
from windlass.control.noun import Noun, off_loop
from windlass.errors import ConfigError, InstanceNotFoundError, did_you_mean
from windlass.operations.request import STACK, InstanceRequest
from windlass.ranges import is_number
from windlass.settings import PROCESSOR_RANGE
from windlass.store.ids import is_id
from windlass.store.jobs.instances import Instance

READ_EVERY = 0.1
LONGEST_GRACE = 30 * 86_400
"""Seconds that a drain may give to running jobs, at most."""


class InstanceActs(Noun):
    """Asks instances to do something. A request is stored; the instance reads it at once, or with its next round of upkeep at the latest, and
    stores the outcome."""

    def drain(self, instance: str, reason: str, *, grace: float | None = None) -> InstanceRequest:
        """Have an instance claim nothing more, let its running jobs finish, and stop; a worker process ends then.

        ``grace`` limits the seconds that running jobs have; without it they have as long as they take. Returns the request: ``wait`` waits for its
        outcome.
        """
        self._actor.require_all("drain an instance")
        require_reason(reason)
        if grace is not None and not is_number(grace, 0, LONGEST_GRACE):
            raise ConfigError("grace", grace, f"a number of seconds from 0 to {LONGEST_GRACE:,}, or None")
        self._living(instance)
        record = self._record("instance.drain", "instance", instance, reason, after={"grace": grace})
        return self.request(
            self._audited(
                record,
                lambda also: self._store.requests.put(
                    instance, "drain", actor=self._actor.name, reason=reason, number=grace, also=also
                ),
            )
        )

    def set_processors(
        self, instance: str, phase: str, count: int, reason: str | None = None
    ) -> InstanceRequest:
        """Give a phase of an instance so many processors, until the instance starts again. With fewer, running jobs finish first. Returns the
        request: ``wait`` waits for its outcome."""
        self._actor.require_all("change processors")
        PROCESSOR_RANGE.check("count", count)
        served = [str(name) for name in self._living(instance).info.get("phases", ())]
        if phase not in served:
            near = did_you_mean(phase, served)
            raise ConfigError(
                "phase", phase, f"a phase that instance {instance} serves: {', '.join(served)}{near}"
            )
        facts = {"phase": phase, "processors": count}
        record = self._record("instance.set_processors", "instance", instance, reason, after=facts)
        return self.request(
            self._audited(
                record,
                lambda also: self._store.requests.put(
                    instance,
                    "processors",
                    actor=self._actor.name,
                    reason=reason,
                    phase=phase,
                    number=count,
                    also=also,
                ),
            )
        )

    def request(self, request_id: str) -> InstanceRequest:
        """A request with its outcome; ``ConfigError`` if there is none of this id. Requests are kept for a month."""
        self._actor.require_all("read requests to instances")
        found = self._store.requests.get(request_id) if is_id(request_id) else None
        if found is None:
            raise ConfigError("request", request_id, "the id of a request to an instance")
        return self._shown(found)

    def requests(self, instance: str) -> Sequence[InstanceRequest]:
        """The last 50 requests to an instance, newest first."""
        self._actor.require_all("read requests to instances")
        found = self._store.requests.of(instance) if is_id(instance) else []
        return [self._shown(one) for one in found]

    def wait(self, request_id: str, timeout: float | None = None) -> InstanceRequest:
        """Wait until a request is done or refused, for at most ``timeout`` seconds; returns it as it is then. An instance that dies leaves its
        requests undone."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        request = self.request(request_id)
        while not request.state.is_over and (ends_at is None or time.monotonic() < ends_at):
            if not self._is_living(request.instance):
                return self.request(request_id)
            time.sleep(READ_EVERY)
            request = self.request(request_id)
        return request

    drain_async = off_loop(drain)
    set_processors_async = off_loop(set_processors)
    request_async = off_loop(request)
    requests_async = off_loop(requests)
    wait_async = off_loop(wait)

    def _shown(self, request: InstanceRequest) -> InstanceRequest:
        """A request as the actor may see it: a stack has the code of handlers."""
        if request.act != STACK:
            return request
        return replace(request, outcome=self._payload.value(request.outcome))

    def _living(self, instance: str) -> Instance:
        for known in self._store.instances.list():
            if known.id == instance and known.dead_at is None:
                return known
        raise InstanceNotFoundError(instance)

    def _is_living(self, instance: str) -> bool:
        return any(known.id == instance and known.dead_at is None for known in self._store.instances.list())
