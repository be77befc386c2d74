"""The client of models, against the local model: backoff, refusals, and the rate of a provider over all workers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import pytest

import windlass
from windlass.retry import fixed
from windlass_examples.running.database import connected, execute
from windlass_examples.web.model import SLOTS, Model, ModelError, shared_turn
from windlass_examples.web.servers import Server


def test_a_refused_call_comes_again_when_the_provider_says(
    model: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = [0.2, 0.1, 0.0]
    monkeypatch.setattr(model, "admit", lambda: waits.pop(0))
    began = time.monotonic()
    assert Model(f"http://{model.authority}/v1").ask("", "sailing", key="1")["advice"]
    assert time.monotonic() - began >= 0.3, "it waited as long as the provider said"
    assert (waits, model.calls, model.charged) == ([], 1, {"1"})


def test_the_local_model_has_a_rate() -> None:
    server = Server(BaseHTTPRequestHandler, per_second=0.001)
    admitted = [server.admit() for _ in range(12)]
    server.server_close()
    assert admitted[:10] == [0.0] * 10 and 900 < admitted[10] < admitted[11] + 1 and server.refused == 2


def test_an_error_ends_or_repeats_the_job(model: Server) -> None:
    with pytest.raises(windlass.Fail, match="status 404"):
        Model(f"http://{model.authority}/v2").ask("", "x", key="1")
    closed = Model("http://127.0.0.1:1/v1")
    with pytest.raises(ModelError, match="cannot be reached"):
        closed.ask("", "x", key="1", policy=fixed(2, wait=0.01))


def test_all_workers_share_the_rate_of_a_provider(store_url: str) -> None:
    with connected(store_url) as connection:
        execute(connection, SLOTS)
    turn = shared_turn(lambda: store_url, 2.0)
    began = time.monotonic()
    with ThreadPoolExecutor(4) as workers:
        waits = sorted(workers.map(lambda _: turn("one"), range(8)))
    took = time.monotonic() - began
    assert all(waits[number] >= number / 2 - took - 0.01 for number in range(8)), (
        "each has a moment of its own"
    )
    assert turn("two") == pytest.approx(0.0, abs=0.001), "providers do not wait for each other"
