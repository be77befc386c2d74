"""Local servers, so that the examples run without a network: a small site, and a model that speaks the protocol of chat completions.

The model is no model: its replies are computed from the prompt, so they are the same in each run. It refuses calls above its rate with 429,
and counts what it would charge: each idempotency key once.
"""

from __future__ import annotations

import json
import math
import re
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LATENCY = 0.05
TOPICS = (
    "sailing knots", "wind and weather", "old harbours", "rope making", "winches and windlasses", "tide tables",
    "boat repair", "night watches", "charts and stars", "anchors", "sails and canvas", "pilot books",
)  # fmt: skip
PATHS = tuple(f"/pages/{number}" for number in range(1, len(TOPICS) + 1))
ADVICE = (
    "say it in the title",
    "link to your sources",
    "begin with the main point",
    "answer one question a page",
)


class Server(ThreadingHTTPServer):
    """A server on loopback, on a free port unless one is given, and what it counted."""

    daemon_threads = True

    def __init__(
        self, handler: type[BaseHTTPRequestHandler], *, per_second: float = 0.0, port: int = 0
    ) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.per_second = per_second
        self.lock = threading.Lock()
        self.calls = 0
        self.refused = 0
        self.charged: set[str] = set()
        self._free_at = -math.inf

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def admit(self) -> float:
        """Seconds until the next call is admitted; zero if this one is. Ten calls may come at once after a pause."""
        if not self.per_second:
            return 0.0
        with self.lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - 9 / self.per_second)
            if self._free_at > now:
                self.refused += 1
                return self._free_at - now
            self._free_at += 1 / self.per_second
            return 0.0


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
        """Log nothing."""

    def reply(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client was killed


class Pages(_Quiet):
    """The site."""

    def do_GET(self) -> None:
        self.server.calls += 1
        path = self.path.partition("?")[0]
        if path not in PATHS:
            self.reply(404, "text/plain", b"no such page")
            return
        time.sleep(LATENCY)
        self.reply(200, "text/html; charset=utf-8", page(PATHS.index(path)).encode())


class Model(_Quiet):
    """The model."""

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 1_000_000))
        if self.path != "/v1/chat/completions":
            self._error(404, "no such endpoint")
            return
        try:
            messages = json.loads(body)["messages"]
            system, prompt = str(messages[0]["content"]), str(messages[-1]["content"])
        except (ValueError, KeyError, IndexError, TypeError):
            self._error(400, "messages wanted")
            return
        if wait := self.server.admit():
            self._error(429, "too many requests", Retry_After=f"{wait:.2f}")
            return
        with self.server.lock:
            self.server.calls += 1
            self.server.charged.add(self.headers.get("Idempotency-Key") or str(self.server.calls))
        time.sleep(LATENCY)
        content = json.dumps(_summary(prompt) if "summary" in system else _opinion(prompt))
        spent = len(prompt.split())
        answer = {
            "id": f"chatcmpl-{zlib.crc32(body):08x}",
            "object": "chat.completion",
            "model": "local",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
            ],
            "usage": {"prompt_tokens": spent, "completion_tokens": 9, "total_tokens": spent + 9},
        }
        self.reply(200, "application/json", json.dumps(answer).encode())

    def _error(self, status: int, message: str, **headers: str) -> None:
        body = json.dumps({"error": {"message": message}}).encode()
        self.reply(status, "application/json", body, **headers)


def _opinion(prompt: str) -> dict[str, Any]:
    number = zlib.crc32(prompt.encode())
    return {"mentioned": number % 4 != 0, "rank": 1 + number % 7, "advice": ADVICE[number % len(ADVICE)]}


def _summary(prompt: str) -> dict[str, Any]:
    """The first two sentences, and the longest words as topics."""
    sentences = re.split(r"(?<=[.!?])\s+", " ".join(prompt.split()))
    words = sorted(set(re.findall(r"[a-z]{5,}", prompt.lower())), key=lambda word: (-len(word), word))
    return {"summary": " ".join(sentences[:2])[:400], "topics": words[:3]}


def page(number: int) -> str:
    """The HTML of a page of the site."""
    topic, other = TOPICS[number], TOPICS[(number + 5) % len(TOPICS)]
    text = " ".join(f"Everything about {topic}, part {part}." for part in range(1, 40 + number))
    return (
        f"<!doctype html><html lang=en><head><title>The {topic} page</title>"
        f"<meta name=description content='All that is known about {topic}.'><style>h1 {{ margin: 0 }}</style></head>"
        f"<body><h1>{topic.capitalize()}</h1><p>{text}</p><h2>And {other}</h2>"
        f"<p>See <a href='{PATHS[(number + 5) % len(PATHS)]}'>there</a>.</p><script>var not = 'a word';</script></body></html>"
    )


@contextmanager
def serving(*servers: Server) -> Iterator[None]:
    """Run servers until the end of the block."""
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(5)


def main() -> None:
    """Serve both until Ctrl-C, and print the variables that the examples read."""
    site, model = Server(Pages), Server(Model, per_second=50)
    with serving(site, model):
        print(
            f"export EXAMPLES_ALLOWED_SITES={site.authority} EXAMPLES_MODEL_URL=http://{model.authority}/v1"
        )
        print(f"# pages: http://{site.authority}{PATHS[0]} to {PATHS[-1]}; Ctrl-C stops", file=sys.stderr)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
