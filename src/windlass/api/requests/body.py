"""Reads the JSON of a body: strictly, and never deeper than the limit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, NoReturn

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.responses import Response

from windlass.api.access.dependencies import checked_caller, roles_needed
from windlass.api.problems.pointers import pointer
from windlass.api.problems.problem import ProblemError
from windlass.errors import did_you_mean
from windlass.store.read_time import reads_within

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
JSON = re.compile(r"application/(?:json|[\w.+-]+\+json)\s*(?:;.*)?", re.IGNORECASE)
"""The content types of JSON."""


def parsed(text: bytes, depth: int, place: str = "#") -> Any:
    """The value of a JSON text; a problem for one that is malformed, too deep, or has the same member twice."""
    if text.count(b"[") + text.count(b"{") > depth and (found := _depth(text)) > depth:
        raise ProblemError(
            "nested-too-deeply",
            f"the JSON is nested {found} deep; {depth} is the limit (api.max_depth)",
            errors=[(place, f"is nested deeper than {depth}")],
        )
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8", place) from None
    except RecursionError:
        raise ProblemError("nested-too-deeply", errors=[(place, "is nested too deeply")]) from None
    except ValueError as error:
        raise _malformed(str(error), place) from None


def _malformed(why: str, place: str) -> ProblemError:
    return ProblemError("malformed-json", f"the body is not JSON: {why}", errors=[(place, why)])


def _depth(text: bytes) -> int:
    """How deep lists and objects are nested, without parsing the text."""
    deepest = depth = 0
    for sign in re.findall(rb"[\[{\]}]", _STRINGS.sub(b"", text)):
        depth += 1 if sign in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no value of JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice[:100]!r} stands twice in one object ({pointer([twice])[:120]})")
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_members)


class StrictRequest(Request):
    """A request whose JSON is read strictly."""

    async def body(self) -> bytes:
        """The body; a problem for one of another type, where JSON is expected."""
        text = await super().body()
        given = self.headers.get("content-type", "")
        if self.scope["route_expects_json"] and text and not JSON.fullmatch(given):
            raise ProblemError(
                "unsupported-media-type",
                f"the body has the content type {given[:100]!r}; send application/json",
                errors=[("header:Content-Type", "must be application/json")],
            )
        return text

    async def json(self) -> Any:
        return parsed(await self.body(), self.scope["max_depth"])


def _parameters(dependant: Dependant) -> list[str]:
    """The parameters of the address that a route and its dependencies have."""
    own = [field.alias for field in dependant.query_params]
    return own + [name for part in dependant.dependencies for name in _parameters(part)]


def _refuse_unknown(given: Iterable[str], parameters: Sequence[str]) -> None:
    """A misspelt filter that is ignored would find all jobs."""
    for name in given:
        if name not in parameters:
            known = f"it has {', '.join(parameters)}" if parameters else "it has none"
            why = f"this address has no such parameter; {known}{did_you_mean(name, parameters)}"
            place = f"query:{name[:100]}"
            raise ProblemError("invalid-request", f"{place}: {why}", errors=[(place, why)])


class StrictRoute(APIRoute):
    """A route that reads JSON strictly, and refuses a parameter of the address that it does not have."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        expects_json = self.body_field is not None
        needed = roles_needed(self.dependant)
        parameters = _parameters(self.dependant)
        is_api = self.path.startswith("/v1/")  # probes may be given anything

        async def strict(request: Request) -> Response:
            for role in needed:  # before the body is read
                checked_caller(request, role)
            if request.scope["query_string"] and is_api:
                _refuse_unknown(request.query_params, parameters)
            request.scope["route_expects_json"] = expects_json
            with reads_within(request.app.state.settings.read_timeout):
                return await handle(StrictRequest(request.scope, request.receive))

        return strict
