"""The examples of the OpenAPI document: one for each schema, put together from examples of its members.

An example that a model states itself is kept. ``MEMBERS`` has the values of members by their name, or by ``Model.member`` where a name means
several things. A member that may be null is null in an example, unless a value is stated for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.api.records.record import ID_EXAMPLE

BEGAN, ENDED = "2026-11-02T06:00:00.000000Z", "2026-11-02T06:00:02.500000Z"
INSTANCE, OTHER_ID = "019a2b3c-0000-7000-8000-0000000000a1", "019a2b3c-4d5e-7f60-8a1b-2c3d4e5f6072"

MEMBERS: Mapping[str, Any] = {
    # names, texts and ids
    "id": ID_EXAMPLE,
    "InstanceRecord.id": INSTANCE,
    "JobEventRecord.id": "42-1",
    "instance": INSTANCE,
    "Problem.instance": "/v1/jobs/none",
    "job": ID_EXAMPLE,
    "FailureGroupRecord.sample": ID_EXAMPLE,
    "kind": "welcome",
    "phase": "welcome",
    "PhaseSampleRecord.ended": {"completed": 3},
    "SampleRecord.phases": {},
    "name": "welcome",
    "AuditEntryRecord.name": ID_EXAMPLE,
    "OutputRecord.name": "result",
    "ScheduleRecord.name": "nightly",
    "RuleRecord.name": "summary",
    "rule": "summary",
    "PipelineRecord.parameters": ["user_id"],
    "PipelineRecord.required": ["user_id"],
    "RuleRecord.parents": ["hours", "leave"],
    "RuleRecord.key": ["county"],
    "RuleRecord.args": {},
    "FanInRecord.missing": ["leave"],
    "create": "report",
    "key": "report-harju",
    "FanInRecord.key": {"county": "Harju"},
    "SettingRecord.key": "api.port",
    "SettingRecord.value": "8080",
    "origin": "default",
    "correlation_id": "order-7",
    "host": "worker-1",
    "processor": "welcome/0",
    "version": "9c1185a5c5e9fc54",
    "InstanceRecord.version": "41",
    "actor": "anna@acme",
    "subject": "anna",
    "tenant": "acme",
    "principal": "anna",
    "source": "code",
    "how": "token",
    "sees": "all",
    "act": "cancel",
    "InstanceRequestRecord.act": "drain",
    "filter": "state:failed kind:report*",
    "expression": "0 6 * * *",
    "tz": "Europe/Tallinn",
    "label": "welcome",
    "executor": "thread",
    "missed": "once",
    "event": "success",
    "policy": "cancel",
    "status": "ok",
    "store": "ok",
    "state": "running",
    "ScheduleRecord.state": "active",
    "JobRecord.state": "completed",
    "JobDetail.state": "completed",
    "PartRecord.state": "completed",
    "RelatedGroupRecord.state": "completed",
    "OperationRecord.state": "running",
    "InstanceRequestRecord.state": "asked",
    "outcome": "completed",
    "severity": "warning",
    "FindingRecord.code": "unserved_phase",
    "sentence": "No living instance serves the phase welcome.",
    "cure": "Start a worker that serves it.",
    "code": "error",
    "message": "bad row",
    "LogLineRecord.message": "page 3 of 12 is written",
    "level": "info",
    "logger": "shop.reports",
    "type": "ValueError",
    "JobEventRecord.type": "completed",
    "place": "shop/reports.py:12 in write",
    "text": "shop/reports.py:12 in write\\n    rows = fetch(page)",
    "table": "windlass.job",
    "waits": "",
    "reason": "ordered twice",
    "PauseRecord.reason": "the disk is full",
    "lasts": 3600,
    "grace": 30,
    "period": 60,
    "wait": 10,
    "topics": ["overview"],
    "problems": [],
    "detail": "is required",
    # values
    "arguments": {"user_id": 7},
    "result": {"letters": 1},
    "value": {"letters": 1},
    "position": {"page": 3},
    "before": {"state": "queued"},
    "after": {"state": "cancelled"},
    "options": {},
    "counters": {"retries": 2},
    "running": [],
    "details": {},
    "also": [],
    "refusals": [],
    "findings": [],
    "times": [BEGAN],
    # times
    "run_at": BEGAN,
    "started_at": BEGAN,
    "claimed_at": BEGAN,
    "created_at": BEGAN,
    "finished_at": ENDED,
    "ended_at": ENDED,
    "at": BEGAN,
    "OperationRecord.finished_at": None,
    # numbers, and what a job that went well has not
    "CancelRecord.result": "cancelled",
    "RelatedGroupRecord.level": 0,
    "error": None,
    "JobDetail.reason": None,
    "JobRecord.reason": None,
    "PoolRecord.error": 0,
    "PoolPhaseRecord.error": 0,
    "PoolMemberRecord.error": 0,
    "generation": 0,
    "crashes": 0,
    "pending": 0,
    "queue": 0,
    "refused": 0,
    "skipped": 0,
    "jitter_seconds": 0.0,
    "max_attempts": 5,
    "busy": 3,
    "InstanceRequestRecord.reason": "the machine is replaced",
    "count": 4,
    "seconds": 60,
    "size": 10,
    "processors": 10,
    "priority": 5,
    "percent": 25.0,
    "ProgressRecord.total": 12,
    "ProgressRecord.done": 3,
    "ran_seconds": 2.5,
    "lease_seconds": 30.0,
    "pid": 4711,
    "InstanceRequestRecord.number": 30.0,
    "InstanceRequestRecord.phase": None,
    "bytes": 8192,
    "rows": 120,
}
WHOLE: Mapping[str, Any] = {
    "BatchBody": {
        "jobs": [{"kind": "welcome", "arguments": {"user_id": 7}}, ID_EXAMPLE],
        "then": {"kind": "report", "arguments": {"county": "Harju"}},
    },
    "CountsRecord": {
        "waiting": 0,
        "scheduled": 2,
        "queued": 5,
        "processing": 3,
        "completed": 120,
        "failed": 1,
        "cancelled": 0,
    },
    "DebounceBody": {"key": "report-harju", "wait": 10},
    "DrainBody": {"reason": "the machine is replaced", "grace": 30},
    "EditBody": {"arguments": {"user_id": 8}, "reason": "wrong user"},
    "LoginRequest": {"code": "gJ3vP0kqYxZbN1u8cT5rWm2dLh7sAf4e"},
    "OperationBody": {"act": "retry", "filter": "state:failed kind:report*", "reason": "the disk was full"},
    "PauseBody": {"reason": "the disk is full", "lasts": 3600},
    "ProcessorsBody": {"count": 4, "reason": "the queue is long"},
    "SubmittedManyRecord": {
        "jobs": [
            {"id": ID_EXAMPLE, "created": True, "replaced": False},
            {"id": OTHER_ID, "created": True, "replaced": False},
        ]
    },
}
"""Examples of whole schemas, where values of the members do not fit together by themselves."""
NULL = {"type": "null"}


def add_examples(document: dict[str, Any]) -> None:
    """Give every schema an example, and every JSON body of a request or a success whose schema is no named one."""
    schemas = document["components"]["schemas"]
    made = _Examples(schemas)
    for name, schema in schemas.items():
        if schema.get("type") == "object" and not schema.keys() & {"example", "examples"}:
            schema["examples"] = [made.of_name(name)]
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in _json_bodies(operation):
                schema = content.get("schema", {})
                if "$ref" not in schema and not content.keys() & {"example", "examples"}:
                    content["example"] = made.of("", schema)


def _json_bodies(operation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON contents of a request and of the responses that are no problems."""
    successes = [one for status, one in operation["responses"].items() if status.startswith("2")]
    return [
        content
        for one in (operation.get("requestBody", {}), *successes)
        for media_type, content in one.get("content", {}).items()
        if media_type == "application/json"
    ]


class _Examples:
    """Makes examples of schemas."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def of_name(self, name: str) -> Any:
        """The example of a named schema."""
        schema = self._schemas[name]
        if name in WHOLE:
            return WHOLE[name]
        if "examples" in schema:
            return schema["examples"][0]
        if "enum" in schema:
            return schema["enum"][0]
        members = schema.get("properties", {}).items()
        required = schema.get("required", ())
        is_request = schema.get("additionalProperties") is False
        return {
            member: self.of(f"{name}.{member}", found)
            for member, found in members
            if member in required or not is_request
        }

    def of(self, place: str, schema: Mapping[str, Any]) -> Any:
        """The example of a schema that stands at ``Model.member``."""
        member = place.rpartition(".")[2]
        for known in (place, member):
            if known in MEMBERS:
                return MEMBERS[known]
        if "examples" in schema:
            return schema["examples"][0]
        if "$ref" in schema:
            return self.of_name(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            return None if member and NULL in schema["anyOf"] else self.of(place, schema["anyOf"][0])
        match schema.get("type"):
            case "array":
                return [self.of(place, schema["items"])]
            case "boolean":
                return schema.get("default", True)
            case "integer" | "number":
                return 1
            case "string" if schema.get("format") == "date-time":
                return BEGAN
            case "object":
                return {}
        if "const" in schema or "enum" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        if member and schema.get("type") == "string":
            raise LookupError(f"{place} needs an example: MEMBERS in {__name__}")
        return MEMBERS["value"] if not schema.get("type") else None
