"""Requests made from the OpenAPI document find no error of the server; ``./dev fuzz`` is the long form."""

from __future__ import annotations

import pytest

from tests.api.fuzz.run import fuzz
from tests.api.fuzz.served import served
from windlass import Principal
from windlass.control.jobs import JobControl

pytestmark = [pytest.mark.timing, pytest.mark.slow]


def test_no_request_leads_to_an_error_or_an_undocumented_response(postgres_dsn: str) -> None:
    """On PostgreSQL, whose texts cannot have NUL."""
    with served(postgres_dsn) as server:
        found = fuzz(server, cases=1, seed=1, phases=("fuzzing",))
    assert not found.failures, "\n\n".join(found.failures)
    documented = {
        one["operationId"] for methods in server.document["paths"].values() for one in methods.values()
    }
    assert found.called == documented and found.requests.total() > 2 * len(documented)


def test_the_fuzzer_finds_errors_undocumented_responses_and_open_doors(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise KeyError("an error of the server")

    monkeypatch.setattr(JobControl, "list_async", fail)
    open_door = Principal("anybody", roles=frozenset({"windlass:admin"}))
    with served(f"sqlite:///{sqlite_path}", authenticate=lambda _: open_door) as server:
        del server.document["paths"]["/v1/phases"]["get"]["responses"]["200"]
        found = fuzz(server, cases=1, seed=1, phases=("fuzzing",), only=["list_jobs", "list_phases"])
    failures = "\n".join(found.failures)
    for what in ("not_a_server_error", "status_code_conformance", "accepted without credentials"):
        assert what in failures
