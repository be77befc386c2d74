"""Sends requests that schemathesis makes from the OpenAPI document of a server, and collects what is wrong with the responses."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder

from tests.api.fuzz.seeds import NEVER
from tests.api.fuzz.served import Served
from tests.waiting import PATIENCE
from windlass.api.requests.submits import NDJSON

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
)
PHASES = ("examples", "coverage", "fuzzing", "stateful")
"""Examples of the document, the edges of each parameter, random requests, and sequences in which one response leads to the next request."""
NO_ROUTE = frozenset({"not-found", "method-not-allowed"})
"""Problems of addresses that no operation has: they need no credentials."""
NO_HTTP = "Invalid HTTP request received."
"""What the server responds to bytes that are not HTTP, or an address of 64 kB: no application gets such a request."""


@schemathesis.serializer(NDJSON)
def _lines(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@dataclass
class Findings:
    """What a run found."""

    requests: Counter[str] = field(default_factory=Counter)
    """How many requests were sent, by phase."""
    called: set[str] = field(default_factory=set)
    """The operations that were called, by id."""
    accepted: set[str] = field(default_factory=set)
    """The operations that accepted a request with credentials."""
    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    """The statuses that requests with credentials got, by operation."""
    failures: list[str] = field(default_factory=list)

    def never_accepted(self) -> dict[str, str]:
        """The operations that accepted no request and have no reason for it, with the statuses of their responses."""
        left = self.called - self.accepted - NEVER.keys()
        return {
            name: ", ".join(
                f"{count}x {status}" for status, count in sorted(self.statuses.get(name, Counter()).items())
            )
            for name in sorted(left)
        }

    def note(self, phase: str, recorder: ScenarioRecorder, *, is_known: bool) -> None:
        """Note the requests of a scenario, and whether their caller was known."""
        for number, interaction in recorder.interactions.items():
            self.requests[phase] += 1
            response, node = interaction.response, recorder.cases.get(number)
            if node is None or response is None or response.text == NO_HTTP:
                continue
            operation = node.value.operation.definition.raw
            self.called.add(operation["operationId"])
            if response.status_code < 300 and is_known:
                self.accepted.add(operation["operationId"])
            if is_known:
                self.statuses.setdefault(operation["operationId"], Counter())[response.status_code] += 1
            if not is_known and operation["security"] and not _is_refused(response):
                self._fail("accepted without credentials", interaction)
            for check in recorder.checks.get(number, ()):
                if check.failure_info is not None:
                    failure = check.failure_info.failure
                    self._fail(f"{check.name}: {failure.title}: {failure.message:.1500}", interaction)

    def _fail(self, what: str, interaction: Any) -> None:
        request, response = interaction.request, interaction.response
        self.failures.append(
            f"{what}\n  {request.method} {request.uri:.1000}\n  headers: {dict(request.headers)!r:.1000}\n"
            f"  body: {request.body!r:.1000}\n  {response.status_code} {response.text:.500}"
        )


def fuzz(
    server: Served,
    *,
    cases: int,
    seed: int,
    phases: Sequence[str] = PHASES,
    only: Sequence[str] = (),
) -> Findings:
    """Send at most so many requests of each operation in each phase, first as an administrator, then without credentials."""
    findings = Findings()
    for headers in ({"Authorization": f"Bearer {server.token}"}, {}):
        config = SchemathesisConfig.from_dict(
            {
                "seed": seed,
                "base-url": server.url,
                "headers": headers,
                "continue-on-failure": True,
                "request-timeout": PATIENCE,
                "warnings": False,
                "generation": {
                    "max-examples": cases,
                    "no-shrink": True,
                    "allow-x00": True,
                    "database": "none",
                },
                "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}},
                "phases": {name: {"enabled": name in phases} for name in PHASES},
            }
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            schema: Any = schemathesis.openapi.from_dict(
                json.loads(json.dumps(server.document)), config=config
            )
            if only:
                schema = schema.include(operation_id=list(only))
            for event in from_schema(schema).execute():
                if isinstance(event, events.ScenarioFinished):
                    findings.note(event.phase.value, event.recorder, is_known=bool(headers))
                elif isinstance(event, events.NonFatalError | events.FatalError):
                    findings.failures.append(f"the fuzzer failed: {event!r:.3000}")
    return findings


def _is_refused(response: Any) -> bool:
    if response.status_code == 401:
        return True
    return response.status_code in (404, 405) and response.json().get("code") in NO_ROUTE
