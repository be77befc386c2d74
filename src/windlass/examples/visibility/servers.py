"""Two small servers on loopback: the pages, and a model with the chat-completions protocol."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LATENCY = 0.15
TOPICS = (
    "sailing knots", "wind and weather", "old harbours", "rope making", "winches and windlasses", "tide tables",
    "boat repair", "night watches", "charts and stars", "anchors", "sails and canvas", "pilot books",
)  # fmt: skip
PAGES = tuple(f"/pages/{number}" for number in range(1, len(TOPICS) + 1))


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Log nothing: the demonstration has its own output."""

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Pages(_Quiet):
    def do_GET(self) -> None:
        if self.path not in PAGES:
            self.answer(404, "text/plain", b"no such page")
            return
        time.sleep(LATENCY)
        self.answer(200, "text/html; charset=utf-8", _page(PAGES.index(self.path)).encode())


class _Model(_Quiet):
    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 1_000_000))
        if self.path != "/v1/chat/completions":
            self.answer(404, "application/json", b'{"error":{"message":"no such endpoint"}}')
            return
        try:
            prompt = str(json.loads(body)["messages"][-1]["content"])
        except (ValueError, KeyError, IndexError, TypeError):
            self.answer(400, "application/json", b'{"error":{"message":"messages wanted"}}')
            return
        time.sleep(LATENCY)
        number = zlib.crc32(prompt.encode())
        advice = ("say it in the title", "link to your sources", "begin with the main point")[number % 3]
        content = json.dumps({"score": 40 + number % 60, "advice": advice})
        answer = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "model": "demo",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
            ],
            "usage": {
                "prompt_tokens": len(prompt.split()),
                "completion_tokens": 9,
                "total_tokens": len(prompt.split()) + 9,
            },
        }
        self.answer(200, "application/json", json.dumps(answer).encode())


def _page(number: int) -> str:
    topic, other = TOPICS[number], TOPICS[(number + 5) % len(TOPICS)]
    text = " ".join(f"Everything about {topic}, part {part}." for part in range(1, 40 + number))
    return (
        f"<!doctype html><html><head><title>The {topic} page</title><style>h1 {{ margin: 0 }}</style></head><body>"
        f"<h1>{topic.capitalize()}</h1><p>{text}</p><h2>And {other}</h2><p>See <a href='{PAGES[(number + 5) % len(PAGES)]}'>there</a>.</p>"
        "<script>var not = 'a word';</script></body></html>"
    )


@contextmanager
def servers() -> Iterator[tuple[str, str]]:
    """Run both servers on free ports; yields their base addresses."""
    running = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (_Pages, _Model)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True) for server in running]
    for thread in threads:
        thread.start()
    try:
        site, model = (f"http://127.0.0.1:{server.server_address[1]}" for server in running)
        yield site, f"{model}/v1"
    finally:
        for server, thread in zip(running, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(5)
