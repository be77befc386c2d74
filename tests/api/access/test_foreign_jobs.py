"""Every operation of the OpenAPI document for callers to whom nothing belongs: no id, no count and no word of Anna's jobs.

The same cases show the canary to Anna, so that they could find it.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.api.access.matrix import CANARY, CASES, STRANGERS, UNKNOWN, World, operations, said


def test_every_operation_has_a_case(world: World) -> None:
    assert set(operations(world.api)) == set(CASES)


def test_anna_is_shown_her_jobs(world: World) -> None:
    async def ask() -> None:
        for operation, case in CASES.items():
            if case.is_shown:
                shown = world.fill(case.shown)
                found = await world.ask(operation, "anna", until=shown, listen=0)
                assert found.status == 200 and shown in found.text, (operation, found)

    asyncio.run(ask())


@pytest.mark.parametrize("who", STRANGERS)
def test_no_operation_leaks_to_others(world: World, who: str) -> None:
    before = {name: _version(world, name) for name in ("failed", "queued", "done", "running")}

    async def ask() -> None:
        for operation, (_, path) in operations(world.api).items():
            found = await world.ask(operation, who)
            text = said(found)
            assert 0 < found.status < 500, (operation, found)
            assert CANARY not in text, (operation, text)
            given = json.dumps(CASES[operation].body) + CASES[operation].query
            names_ids = (
                "{job_id}" in path
                or "{operation_id}" in path
                or any(name.upper() in given for name in vars(world.annas))
            )
            if names_ids:
                unknown = await world.ask(operation, who, unknown=True)
                for one in world.annas.ids:
                    text = text.replace(one, UNKNOWN)
                assert (found.status, text) == (unknown.status, said(unknown)), operation
                assert found.status in (404, 422), (operation, found)
            for one in world.annas.ids:
                assert one not in text, (operation, text)
            if operation == "count_jobs":
                assert found.json()["count"] == 0
            if operation == "submit_jobs":
                assert found.status == 409, "the key belongs to a job of Anna"
            if operation == "start_operation":
                assert found.json()["matched"] == 0

    asyncio.run(ask())
    assert {name: _version(world, name) for name in before} == before


def _version(world: World, name: str) -> tuple[str, str]:
    job = world.app.jobs.get(getattr(world.annas, name))
    return str(job.state), job.version
