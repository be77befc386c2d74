"""Acts on all jobs of a filter, as operations: counted first, stored, done a page at a time, with progress and a stop."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass.control.filters import Filter
from windlass.control.filters.hiding import without_secrets
from windlass.control.given import check_count, check_texts
from windlass.control.job_acts import require_reason
from windlass.control.job_reading import AnyFilter, JobReading
from windlass.control.noun import Noun, off_loop
from windlass.control.operation_runner import OperationRunner
from windlass.errors import ConfigError, OperationNotFoundError, check_names, did_you_mean
from windlass.model import HIGHEST_PRIORITY
from windlass.operations.operation import ACTS, Operation, OperationPage, OperationState
from windlass.ranges import is_whole
from windlass.store.ids import LARGEST, is_id, new_id

READ_EVERY = 0.1
"""Seconds between two reads of an operation that another process does."""
_OPTIONS: Mapping[str, frozenset[str]] = {
    "retry": frozenset({"dependents"}),
    "priority": frozenset({"priority"}),
}


class OperationHandle:
    """An operation that was begun. ``begun`` is the operation as it was then; of a dry run it is all there is, and ``id`` is empty."""

    def __init__(self, begun: Operation, control: OperationControl) -> None:
        self.begun = begun
        self.id = begun.id
        self._control = control

    @property
    def matched(self) -> int:
        """How many jobs the filter found; at least so many unless ``begun.is_exact``."""
        return self.begun.matched

    def get(self) -> Operation:
        """The operation as it is now."""
        return self._control.get(self.id) if self.id else self.begun

    def stop(self, reason: str | None = None) -> bool:
        """Stop it; see ``app.operations.stop``."""
        return self._control.stop(self.id, reason) if self.id else False

    def wait(self, timeout: float | None = None) -> Operation:
        """Wait for its end, and do its pages where no worker does; see ``app.operations.wait``."""
        return self._control.wait(self.id, timeout) if self.id else self.begun

    get_async = off_loop(get)
    stop_async = off_loop(stop)
    wait_async = off_loop(wait)

    def __repr__(self) -> str:
        return f"<operation {self.id or 'dry run'}: {self.begun.act} {self.begun.filter or 'all jobs'}>"


class OperationControl(Noun):
    """Begins, shows and stops operations: those of the actor, of the actor's tenant, or all."""

    def start(
        self,
        act: str,
        only: AnyFilter = None,
        reason: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        all: bool = False,
        dry_run: bool = False,
    ) -> OperationHandle:
        """Act on all jobs that a filter finds now: ``cancel``, ``retry``, ``run_now``, ``delete`` or ``priority``.

        An empty filter is refused unless ``all`` is True. The jobs are counted, and the operation is stored; workers do it in the background, or
        ``wait`` of the handle does. Jobs created from now on are not touched, and a job that no longer meets the filter when its turn comes is left
        alone. Each job is acted on once, in the scope that the actor has now. ``dry_run`` only counts. ``options`` are those of the act:
        ``dependents`` of a retry, ``priority`` of a change of priority.
        """
        if not isinstance(options, Mapping | None):
            raise ConfigError("options", options, "a mapping of names to values, or None")
        check_texts(reason=reason)
        found, chosen = Filter.of(only), dict(options or {})
        _check(act, found, reason, chosen, is_all=all)
        counted = JobReading(self._source, self._actor).count(found)
        who, now = self._actor.principal, self._store.now()
        operation = Operation(
            id=new_id(),
            act=act,
            filter=str(found),
            actor=self._actor.name,
            subject=None if who is None else who.subject,
            issuer=None if who is None else who.issuer,
            tenant=None if who is None else who.tenant,
            state=OperationState.RUNNING,
            matched=counted.count,
            is_exact=counted.exact,
            reason=reason,
            options=chosen,
            scope=self._actor.scope.parameters(),
            created_at=now,
            updated_at=now,
            after=LARGEST,
        )
        shown = self._payload.operation(operation)
        if dry_run:
            return OperationHandle(replace(shown, id="", state=OperationState.DRY_RUN), self)
        meant = without_secrets(operation.filter, self._source.redacted)
        facts = {"act": act, "filter": meant, "matched": operation.matched, **chosen}
        record = self._record("operation.start", "operation", operation.id, reason, after=facts)
        self._audited(record, lambda also: self._store.operations.put(operation, also=also))
        return OperationHandle(shown, self)

    def get(self, operation_id: str) -> Operation:
        """One operation with its progress; ``OperationNotFoundError`` if there is none that the actor may see."""
        return self._payload.operation(self._stored(operation_id))

    def _stored(self, operation_id: str) -> Operation:
        """One operation with its filter as the actor who began it wrote it."""
        scope = self._actor.scope.parameters()
        found = self._store.operations.get(operation_id, scope) if is_id(operation_id) else None
        if found is None:
            raise OperationNotFoundError(operation_id)
        return found

    def list(self, *, state: str | None = None, cursor: str | None = None, limit: int = 50) -> OperationPage:
        """Operations from newest to oldest, a page at a time."""
        check_count("limit", limit)
        if cursor is not None and not is_id(cursor):
            raise ConfigError("cursor", cursor, "the next_cursor of the page before")
        if state is not None and state not in tuple(OperationState):
            raise ConfigError("state", state, "running, done or stopped")
        wanted = None if state is None else OperationState(state)
        scope = self._actor.scope.parameters()
        page = self._store.operations.list(scope, state=wanted, cursor=cursor, limit=limit)
        return replace(page, operations=[self._payload.operation(one) for one in page.operations])

    def handle(self, operation_id: str) -> OperationHandle:
        """A handle on an operation that was begun before, here or elsewhere."""
        return OperationHandle(self.get(operation_id), self)

    def stop(self, operation_id: str, reason: str | None = None) -> bool:
        """Stop a running operation after the page that is being done; what was done stays done. False if it was over already."""
        before = self.get(operation_id)
        facts = {"done": before.done, "refused": before.refused, "matched": before.matched}
        record = self._record("operation.stop", "operation", operation_id, reason, before=facts)
        return self._audited(record, lambda also: self._store.operations.stop(operation_id, also=also))

    def wait(self, operation_id: str, timeout: float | None = None) -> Operation:
        """Wait until an operation is over, for at most ``timeout`` seconds, and do its pages here while no worker does; returns it as it is then."""
        operation = self._stored(operation_id)
        runner, holder = OperationRunner(self._source), new_id()
        ends_at = None if timeout is None else time.monotonic() + timeout
        has_turn = False
        try:
            while not operation.is_over and (ends_at is None or time.monotonic() < ends_at):
                has_turn = runner.take_turn(holder)
                if not (has_turn and runner.run_page(operation)):
                    time.sleep(READ_EVERY)
                operation = self._stored(operation_id)
        finally:
            if has_turn:
                runner.give_turn(holder)
        return self._payload.operation(operation)

    start_async = off_loop(start)
    get_async = off_loop(get)
    list_async = off_loop(list)
    handle_async = off_loop(handle)
    stop_async = off_loop(stop)
    wait_async = off_loop(wait)


def _check(act: str, only: Filter, reason: str | None, options: Mapping[str, Any], *, is_all: bool) -> None:
    if act not in ACTS:
        raise ConfigError("act", act, f"one of {', '.join(ACTS)}{did_you_mean(act, ACTS)}")
    if only.is_empty and not is_all:
        raise ConfigError(
            "filter", "", "a filter such as 'state:failed'; to act on all jobs, say so with all=True"
        )
    if act in ("cancel", "delete"):
        require_reason(reason)
    check_names("option", options, _OPTIONS.get(act, frozenset()))
    if act == "priority" and not is_whole(options.get("priority"), 0, HIGHEST_PRIORITY):
        raise ConfigError(
            "priority", options.get("priority"), "a whole number from 0 to 9; 9 is served first"
        )
    if not isinstance(options.get("dependents", False), bool):
        raise ConfigError("dependents", options["dependents"], "True or False")
