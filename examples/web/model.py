"""A client for models that speak the protocol of OpenAI's chat completions, with backoff and a rate for each provider."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import windlass
from windlass.retry import exponential, run_with_backoff
from windlass_examples.running.database import connected, execute, is_sqlite

LARGEST_REPLY = 1_000_000
LONGEST_WAIT = 60.0
BACKOFF = exponential(attempts=5, base=0.2, longest=20.0, jitter=0.2)


class ModelError(Exception):
    """The model could not be asked, or its reply has no use; a further attempt may succeed."""


class Turn(Protocol):
    """Says how many seconds a call to a provider has to wait for its turn."""

    def __call__(self, provider: str) -> float: ...


def no_turn(provider: str) -> float:
    """No rate."""
    return 0.0


@dataclass(frozen=True)
class Model:
    """A model behind a base URL, such as ``https://api.openai.com/v1``."""

    url: str
    name: str = "local"
    key: str = ""
    seconds: float = 60.0
    turn: Turn = no_turn

    @classmethod
    def from_environment(cls, turn: Turn = no_turn) -> Model:
        """The model of ``EXAMPLES_MODEL_URL``, ``EXAMPLES_MODEL_NAME`` and ``EXAMPLES_MODEL_KEY``."""
        url = os.environ.get("EXAMPLES_MODEL_URL")
        if not url:
            raise RuntimeError(
                "EXAMPLES_MODEL_URL is not set; `python -m windlass_examples.web.servers` starts a local model and prints its URL"
            )
        name, key = os.environ.get("EXAMPLES_MODEL_NAME", "local"), os.environ.get("EXAMPLES_MODEL_KEY", "")
        return cls(url.rstrip("/"), name, key, turn=turn)

    @property
    def provider(self) -> str:
        return urlsplit(self.url).netloc

    def ask(self, system: str, prompt: str, *, key: str, policy: Any = BACKOFF) -> dict[str, Any]:
        """The reply of the model, a JSON object. ``key`` is the same at each repetition, so that the provider charges once."""
        reply: dict[str, Any] = run_with_backoff(
            lambda: self._ask_once(system, prompt, key), policy=policy, longest_wait=LONGEST_WAIT
        )
        return reply

    def _ask_once(self, system: str, prompt: str, key: str) -> dict[str, Any]:
        _wait(self.turn(self.provider))
        body = {
            "model": self.name,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": prompt}],
            "response_format": {"type": "json_object"},
        }
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = urllib.request.Request(  # noqa: S310  the operator's own URL
            f"{self.url}/chat/completions", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=self.seconds) as response:  # noqa: S310
                return _content(response.read(LARGEST_REPLY))
        except urllib.error.HTTPError as error:
            with error:
                raise _refusal(self.provider, error) from error
        except (OSError, http.client.HTTPException) as error:
            raise ModelError(f"{self.provider} cannot be reached: {error}") from error


def _wait(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def _refusal(provider: str, error: urllib.error.HTTPError) -> Exception:
    """The exception for a status: one that says when to come again, one that may be repeated, or one that ends the job."""
    message = f"{provider} replied with status {error.code}"
    if error.code == 429:
        try:
            after = float(error.headers.get("Retry-After", ""))
        except ValueError:
            return ModelError(message)
        return windlass.Retry(message, after=min(max(after, 0.0), LONGEST_WAIT))
    if error.code >= 500 or error.code in (408, 409, 425):
        return ModelError(message)
    return windlass.Fail("model_refused", f"{message}; check EXAMPLES_MODEL_URL, _NAME and _KEY")


def _content(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(json.loads(body)["choices"][0]["message"]["content"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ModelError("the reply of the model is not the JSON that was requested") from error
    if not isinstance(content, dict):
        raise ModelError("the reply of the model is not a JSON object")
    return content


SLOTS = (
    "CREATE TABLE IF NOT EXISTS provider_slot (provider TEXT PRIMARY KEY, next_at DOUBLE PRECISION NOT NULL)"
)


def shared_turn(url: Callable[[], str], per_second: float) -> Turn:
    """Turns that all workers of a database share: each call gets the next free moment of its provider, by the database's clock.

    Windlass's own rates count jobs; a provider counts calls, and a job makes several.
    """

    def turn(provider: str) -> float:
        with connected(url()) as connection:
            now = (
                "(julianday('now') - 2440587.5) * 86400.0"
                if is_sqlite(connection)
                else "extract(epoch FROM clock_timestamp())::double precision"
            )
            later = "max" if is_sqlite(connection) else "greatest"
            row = execute(
                connection,
                f"INSERT INTO provider_slot VALUES (?, {now} + ?) ON CONFLICT (provider) DO UPDATE "  # noqa: S608  no values
                f"SET next_at = {later}(provider_slot.next_at, {now}) + ? RETURNING next_at - ? - {now}",
                (provider, 1 / per_second, 1 / per_second, 1 / per_second),
            ).fetchone()
        return max(0.0, float(row[0]))

    return turn
