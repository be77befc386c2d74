"""Calls a handler in the thread of the test."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from windlass.app.hosting import HostingTest
from windlass.arguments.asyncness import is_async, is_on_a_loop
from windlass.engine.attempt import Call
from windlass.engine.running_attempt import RunningAttempt
from windlass.features import Store
from windlass.observe.current_job import current_job
from windlass.store.jobs.holder import Holder


class Access(NamedTuple):
    """The store and the holder of an attempt, which stays the same when a fault takes the lease away."""

    store: Store
    holder: Holder


def call_handler(running: RunningAttempt, call: Call, host: HostingTest | None) -> Any:
    """Call a handler in a context of its own, as in a worker, whose threads know nothing of the block (as_principal) around the enqueue. A
    coroutine runs on an event loop of its own, also where the test has one; with a host, the handler and what it does in threads have the
    connection of the host's test."""
    return contextvars.Context().run(_called, running, call, host)


def _called(running: RunningAttempt, call: Call, host: HostingTest | None) -> Any:
    current_job.set(running)
    if host is not None:
        return host.beside_loop(lambda: host.run(call()) if is_async(call.handler) else call())
    if not is_async(call.handler):
        return call()
    if not is_on_a_loop():
        return asyncio.run(call())
    with ThreadPoolExecutor(1, thread_name_prefix="windlass-sandbox") as thread:
        return thread.submit(contextvars.copy_context().run, lambda: asyncio.run(call())).result()
