"""Sends requests, and repeats those that may be repeated when the server cannot be reached or asks to come back later."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn, TypeVar

import httpx

from windlass.client.asks.ask import Ask, Stream
from windlass.client.failures import error_of, unreachable
from windlass.errors import ConfigError, WindlassError
from windlass.urls import shown_url

T = TypeVar("T")
TRIES = 5
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
NOTHING_LEFT = 204
"""The status of a stream whose job has ended, and all of whose events the client has."""
_LATER = frozenset({409, 429, 503})
"""Statuses that, with Retry-After, ask to repeat the request."""


class Target:
    """The address of an API and the token for it. The token is in no text of this class and of its errors."""

    def __init__(self, url: str | None, token: str | None) -> None:
        address = url or os.environ.get("WINDLASS_SERVER", "")
        shown = shown_url(address)
        try:
            parsed = httpx.URL(address)
        except httpx.InvalidURL:
            parsed = httpx.URL("")
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
            allowed = "the address of a server, such as https://jobs.example.org, without a user (a token is given as token=... or WINDLASS_TOKEN)"
            raise ConfigError("server", shown, allowed)
        self.url = address.rstrip("/")
        self.headers = {"Accept": "application/json"}
        given = (os.environ.get("WINDLASS_TOKEN", "") if token is None else token).strip()
        if not given.isascii() or not given.isprintable() or " " in given:
            raise ConfigError("token", "***", "one word of printable ASCII characters")
        if given:
            self.headers["Authorization"] = f"Bearer {given}"

    def request(self, ask: Ask[Any], timeout: float) -> dict[str, Any]:
        """The parameters of a request of httpx."""
        headers = {**self.headers, **ask.headers}
        if ask.body is not None:
            headers["Content-Type"] = "application/json"
        limits = httpx.Timeout(timeout, read=timeout + ask.wait)
        return {
            "method": ask.method,
            "url": f"{self.url}{ask.path}",
            "params": dict(ask.query) or None,
            "content": None if ask.body is None else ask.body.encode(),
            "headers": headers,
            "timeout": limits,
        }

    def pauses(self) -> Iterator[float]:
        """The seconds before each repetition."""
        for number in range(TRIES - 1):
            yield min(LONGEST_PAUSE, FIRST_PAUSE * 3**number) * random.uniform(0.7, 1.3)

    def failed(self, ask: Ask[Any], error: httpx.TransportError, pause: float | None) -> float:
        """The pause before a request whose response did not come is repeated; raises where it may not be."""
        is_unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if pause is not None and (is_unsent or ask.may_repeat):
            return pause
        advice = ""
        if not is_unsent and ask.method != "GET":
            key = ask.headers.get("Idempotency-Key")
            again = f"; idempotency_key={key!r} repeats it without a second job" if key else ""
            advice = f". Whether it did what was asked is unknown{again}"
        raise unreachable(shown_url(self.url), error, advice) from None

    def again(self, ask: Ask[Any], response: httpx.Response, pause: float | None) -> float | None:
        """The pause before a request is repeated, because the server asks for that; None if its response is final."""
        after = response.headers.get("Retry-After", "")
        if pause is not None and ask.may_repeat and response.status_code in _LATER and after.isdigit():
            return max(pause, min(float(after), LONGEST_PAUSE))
        return None

    def later(self, ask: Ask[NoReturn], response: httpx.Response, pause: float | None) -> float:
        """The pause before a stream is asked for again that did not begin; raises what its response refused."""
        wait = self.again(ask, response, pause)
        return self.read(ask, response) if wait is None else wait

    def read(self, ask: Ask[T], response: httpx.Response) -> T:
        """What a response says; raises the error that it is."""
        if not response.is_success:
            error = error_of(response)
            if response.status_code == httpx.codes.UNAUTHORIZED and "Authorization" not in self.headers:
                error.add_to_message(
                    after="; give the client a token (token=... or WINDLASS_TOKEN): `windlass token create NAME` makes one"
                )
            raise error
        try:
            return ask.read(response.json() if response.content else None)
        except (ValueError, KeyError, TypeError) as error:
            raise WindlassError(
                f"{shown_url(self.url)}{ask.path} responded with something else than the REST API does; check the address"
            ) from error


def is_stream(response: httpx.Response) -> bool:
    """Whether a response is a stream of events, and no refusal or a page of something else."""
    return response.is_success and response.headers.get("Content-Type", "").startswith("text/event-stream")


class Sender:
    """Sends requests from a thread."""

    def __init__(self, target: Target, timeout: float) -> None:
        self.target, self._timeout = target, timeout
        self._http = httpx.Client()

    def check(self, seconds: float) -> None:
        """Have the server respond, with anything, within so many seconds; ``StoreUnreachableError`` if it does not."""
        try:
            self._http.get(f"{self.target.url}/livez", timeout=seconds)
        except httpx.TransportError as error:
            raise unreachable(shown_url(self.target.url), error) from None

    def send(self, ask: Ask[T]) -> T:
        """Send a request, as often as needed, and return what its response says."""
        pauses = self.target.pauses()
        while True:
            pause = next(pauses, None)
            try:
                response = self._http.request(**self.target.request(ask, self._timeout))
            except httpx.TransportError as error:
                time.sleep(self.target.failed(ask, error, pause))
                continue
            wait = self.target.again(ask, response, pause)
            if wait is None:
                return self.target.read(ask, response)
            time.sleep(wait)

    def stream(self, stream: Stream[T]) -> Iterator[T]:
        """The events of a stream, continued behind the last one after a cut, until it is over."""
        pauses = self.target.pauses()
        while not stream.is_over:
            ask, pause = stream.ask(), next(pauses, None)
            try:
                with self._http.stream(**self.target.request(ask, self._timeout)) as response:
                    if response.status_code == NOTHING_LEFT:
                        return
                    if is_stream(response):
                        for line in response.iter_lines():
                            if (event := stream.line(line)) is not None:
                                yield event
                                pauses = self.target.pauses()
                        wait = FIRST_PAUSE
                    else:
                        response.read()
                        wait = self.target.later(ask, response, pause)
            except httpx.TransportError as error:
                wait = self.target.failed(ask, error, pause)
            if not stream.is_over:
                time.sleep(wait)

    def close(self) -> None:
        self._http.close()


class AsyncSender:
    """Sends requests from an event loop."""

    def __init__(self, target: Target, timeout: float) -> None:
        self.target, self._timeout = target, timeout
        self._http = httpx.AsyncClient()

    async def check(self, seconds: float) -> None:
        """``Sender.check`` without blocking the event loop."""
        try:
            await self._http.get(f"{self.target.url}/livez", timeout=seconds)
        except httpx.TransportError as error:
            raise unreachable(shown_url(self.target.url), error) from None

    async def send(self, ask: Ask[T]) -> T:
        """``Sender.send`` without blocking the event loop."""
        pauses = self.target.pauses()
        while True:
            pause = next(pauses, None)
            try:
                response = await self._http.request(**self.target.request(ask, self._timeout))
            except httpx.TransportError as error:
                await asyncio.sleep(self.target.failed(ask, error, pause))
                continue
            wait = self.target.again(ask, response, pause)
            if wait is None:
                return self.target.read(ask, response)
            await asyncio.sleep(wait)

    async def stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        """``Sender.stream`` without blocking the event loop."""
        pauses = self.target.pauses()
        while not stream.is_over:
            ask, pause = stream.ask(), next(pauses, None)
            try:
                async with self._http.stream(**self.target.request(ask, self._timeout)) as response:
                    if response.status_code == NOTHING_LEFT:
                        return
                    if is_stream(response):
                        async for line in response.aiter_lines():
                            if (event := stream.line(line)) is not None:
                                yield event
                                pauses = self.target.pauses()
                        wait = FIRST_PAUSE
                    else:
                        await response.aread()
                        wait = self.target.later(ask, response, pause)
            except httpx.TransportError as error:
                wait = self.target.failed(ask, error, pause)
            if not stream.is_over:
                await asyncio.sleep(wait)

    async def close(self) -> None:
        await self._http.aclose()
