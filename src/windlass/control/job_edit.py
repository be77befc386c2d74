"""Changing a job that has not begun: its arguments, by the handler's signature, and its priority."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.control.job_acts import JobActs
from windlass.control.noun import off_loop
from windlass.errors import ActRefusedError, ConfigError, EditConflictError, PayloadError
from windlass.handlers.registry import Kind
from windlass.model import HIGHEST_PRIORITY, Job, JobLimit, Json
from windlass.model import rate as rates
from windlass.model.principal import Principal
from windlass.ranges import is_whole
from windlass.store.jobs.edits import Edit


class JobEdit(JobActs):
    """Changes jobs that have not begun."""

    def edit(
        self,
        job_id: str,
        *,
        version: str,
        arguments: Mapping[str, Any] | None = None,
        priority: int | None = None,
        reason: str | None = None,
    ) -> Job:
        """Change arguments or priority of a job that is queued, scheduled or waiting and was not run yet; returns the job as it is now.

        ``arguments`` are the arguments to change, by name; all others stay. They are validated by the handler's signature, so the kind must be
        defined in this application. ``version`` is ``job.version`` of the job that was read: if another actor has changed the job since,
        ``EditConflictError``. Keys of limits are derived anew; ``ActRefusedError``, with cause and cure, where something that comes from the
        arguments cannot be: unique keys, a place in a limit, saved positions and outputs, an earlier end in a fan-in. The job runs with the
        rights of its principal, not with those of the actor: arguments that the principal's attributes of the same name do not allow are
        refused.
        """
        _check(version, arguments, priority)
        self._require_job(job_id)
        change = Edit(priority=priority, version=version)
        if arguments:
            change = self._checked(self._store.jobs.get(job_id), arguments, change)
        names = sorted(arguments or ())
        return self._payload.job(
            self._act(
                "job.edit",
                job_id,
                reason,
                lambda also: self._store.jobs.edit(job_id, change, also=also),
                lambda job: _facts(job, names),
            )
        )

    edit_async = off_loop(edit)

    def _checked(self, job: Job, arguments: Mapping[str, Any], change: Edit) -> Edit:
        """The change with the whole arguments, validated, and with the limits that they lead to."""
        if change.version is not None and job.version != change.version:
            raise EditConflictError(job.id, change.version, job.version)
        kind = self._source.registry.kind(job.kind)
        if kind is None:
            why = f"its kind {job.kind} is not defined in this application, so its arguments cannot be validated; edit it where the kind is defined"
            raise ActRefusedError(job.id, "edit", job.state, why)
        merged = Json(_merged(kind, job.args_json, arguments))
        self._refuse_foreign_values(job, json.loads(job.args_json), json.loads(merged))
        return Edit(
            args=merged,
            priority=change.priority,
            version=change.version,
            limits_before=_limits_before(kind, job.args_json),
            limits=kind.limits(merged),
        )

    def _refuse_foreign_values(self, job: Job, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Refuse values that the job's principal is not allowed, where an attribute has the name of an argument that changes."""
        captured = self._store.principals.get(job.id)
        if captured is None:
            return
        principal: Principal = captured.principal
        for name, value in after.items():
            if name not in principal.attributes or before.get(name) == value:
                continue
            if not all(
                principal.allows(**{name: one}) for one in (value if isinstance(value, list) else [value])
            ):
                why = (
                    f"it runs for {principal.subject}, whose attribute {name!r} does not allow the new value of the argument {name!r}; "
                    "give a value that it allows, or submit a new job"
                )
                raise ActRefusedError(job.id, "edit", job.state, why)


def _check(version: object, arguments: object, priority: object) -> None:
    if arguments is None and priority is None:
        raise ConfigError("arguments", None, "the arguments to change, or a priority, or both")
    if not isinstance(version, str) or not version:
        raise ConfigError("version", version, "the version of the job that was read: job.version")
    if priority is not None and not is_whole(priority, 0, HIGHEST_PRIORITY):
        raise ConfigError("priority", priority, "a whole number from 0 to 9; 9 is served first")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise ConfigError("arguments", type(arguments).__name__, "a mapping of argument names to values")


def _merged(kind: Kind, stored: str, changes: Mapping[str, Any]) -> str:
    """The stored arguments with the changes, as JSON text, validated by the signature of the kind's first phase."""
    signature = kind.first.signature
    try:
        kept = signature.decode_args(stored)
    except PayloadError:  # the changes may be what mends them
        kept = json.loads(stored)
    return signature.encode_args(**{**kept, **changes})


def _limits_before(kind: Kind, args_json: str) -> Sequence[JobLimit]:
    """The limits that arguments led to; arguments without a key share one with others like them."""
    found = []
    for flow in (phase.flow for phase in kind.limited if phase.flow):
        try:
            found.append(rates.limit_of(flow, args_json))
        except ConfigError:
            found.append(rates.limit_of(flow, args_json, ""))
    return found


def _facts(job: Job, names: Sequence[str]) -> Mapping[str, Any]:
    arguments = job.args
    return {
        "priority": job.priority,
        "arguments": {name: arguments[name] for name in names if name in arguments},
        "version": job.version,
    }
