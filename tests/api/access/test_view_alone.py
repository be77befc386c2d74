"""Every operation that reads, for a caller who may see all jobs but not their payload."""

from __future__ import annotations

import asyncio

from tests.api.access.matrix import CANARY, CASES, WATCHER, World, operations

REFUSED = {"get_job_logs", "get_job_result", "list_job_outputs", "get_phase_output", "get_job_output"}
"""Operations that return payload and nothing else."""


def test_no_operation_shows_payload(world: World) -> None:
    async def ask() -> None:
        for operation, (method, _) in operations(world.api).items():
            if method != "GET":
                continue
            found = await world.ask(operation, WATCHER)
            assert CANARY not in found.text, (operation, found)
            if CASES[operation].is_shown:
                assert found.status == (403 if operation in REFUSED else 200), (operation, found)

    asyncio.run(ask())


def test_the_filter_of_an_operation_is_shown_without_arguments(world: World) -> None:
    async def ask() -> None:
        for operation in ("get_operation", "list_operations", "list_audit"):
            found = await world.ask(operation, WATCHER)
            assert r"kind:nothing args.text:\"***\"" in found.text, found

    asyncio.run(ask())
