"""Does what actors ask of this instance: drain, another number of processors for a phase, the stack of a handler. The outcome is stored with
the request."""

from __future__ import annotations

from collections.abc import Callable

from windlass.engine.executors.choice import Executors
from windlass.engine.instance import Instance
from windlass.engine.step import Stepper
from windlass.engine.workload import Workload
from windlass.errors import WindlassError
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.operations.request import STACK, InstanceRequest, RequestState
from windlass.settings import PROCESSOR_RANGE


class InstanceRequests:
    """The requests to this instance."""

    def __init__(
        self,
        instance: Instance,
        workload: Workload,
        stepper: Stepper,
        executors: Executors,
        drain: Callable[[float | None], bool],
    ) -> None:
        self._executors = executors
        self._instance = instance
        self._workload = workload
        self._stepper = stepper
        self._drain = drain
        self._draining: list[str] = []

    def run(self) -> None:
        """Read the requests to this instance, and do them."""
        requests = self._instance.store.requests
        for request in requests.asked(self._instance.id):
            try:
                state, outcome = self._done(request)
            except WindlassError as error:
                state, outcome = RequestState.REFUSED, str(error)
            emit(events.REQUESTED, outcome, act=request.act, actor=request.actor)
            requests.note(request.id, state, outcome)

    def finish(self) -> None:
        """Note that a drain is over: all that is left of this instance is to leave."""
        while self._draining:
            self._instance.store.requests.note(
                self._draining.pop(), RequestState.DONE, "the instance has stopped"
            )

    def _done(self, request: InstanceRequest) -> tuple[RequestState, str]:
        if request.act == "processors":
            return self._resize(request.phase or "", request.number)
        if request.act == STACK:
            return self._stack(request.phase or "")
        if request.act != "drain":
            return RequestState.REFUSED, f"this instance does not know the act {request.act!r}"
        running = len(self._workload.running())
        if not self._drain(request.number):
            return RequestState.REFUSED, "the instance is stopping already"
        self._draining.append(request.id)
        return (
            RequestState.ACCEPTED,
            f"claims nothing more; {running} running job{'' if running == 1 else 's'}",
        )

    def _stack(self, job_id: str) -> tuple[RequestState, str]:
        for running in self._workload.running():
            if running.lease.id == job_id:
                try:
                    return RequestState.DONE, self._executors.stack(running)
                except LookupError as error:
                    return RequestState.REFUSED, str(error)
        return RequestState.REFUSED, "its handler does not run here any more"

    def _resize(self, phase: str, number: float | None) -> tuple[RequestState, str]:
        if phase not in self._workload.waiting():
            return RequestState.REFUSED, f"this instance does not serve phase {phase}"
        size = int(number or 0)
        PROCESSOR_RANGE.check("processors", size)
        before, begun = self._workload.resize(phase, size)
        self._stepper.begin(begun)
        self._stepper.hint(phase)
        return RequestState.DONE, f"phase {phase} has {size} processors until the next start; it had {before}"
