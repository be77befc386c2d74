"""The client has the verbs of the control service, and no others; both lists of exceptions say why."""

from __future__ import annotations

import inspect
import typing
from functools import cached_property

import pytest

from windlass.client import AsyncClient, Client
from windlass.control.service import Control

NOT_REMOTE = {
    "submits.batch": "client.submit_batch",
    "submits.keyed": "client.submit sends a key with each request",
    "submits.many": "client.submit and client.submit_many",
    "overview.ping": "client.check",
    "tokens.create": "a token of the API must not make another one",
    "tokens.list": "tokens are managed where the database is",
    "tokens.revoke": "tokens are managed where the database is",
    "metrics.render": "GET /metrics is text for Prometheus",
    "doctor.examine": "GET /v1/doctor is the report of the server",
    "doctor.settings": "GET /v1/settings is the report of the server",
    "doctor.tables": "GET /v1/tables is the report of the server",
}
"""Verbs of the control service that the client lacks: what there is instead, or why there is none."""
ONLY_REMOTE = {
    "jobs.wait": "handles of an app wait; a client has ids",
    "jobs.result": "handles of an app wait; a client has ids",
}
"""Verbs of the client that the control service lacks."""
OTHER_PARAMETERS = {
    "jobs.count": "a server counts up to 10,000, so that a request has a bounded cost",
    "jobs.events": "the time-out of a stream is that of the client",
}
"""Verbs whose parameters or defaults differ."""


def verbs(noun: type) -> dict[str, inspect.Signature]:
    """The public methods of a noun, without those that are another's form for coroutines."""
    found = inspect.getmembers(noun, callable)
    return {
        name: inspect.signature(one)
        for name, one in found
        if not name.startswith("_") and not name.endswith("_async") and inspect.isfunction(one)
    }


def of_control() -> dict[str, inspect.Signature]:
    nouns = {
        name: typing.get_type_hints(member.func)["return"]
        for name, member in vars(Control).items()
        if isinstance(member, cached_property)
    }
    return {f"{noun}.{verb}": how for noun, kind in nouns.items() for verb, how in verbs(kind).items()}


def of_client(client: Client | AsyncClient) -> dict[str, inspect.Signature]:
    nouns = {name: type(member) for name, member in vars(client).items() if not name.startswith("_")}
    return {f"{noun}.{verb}": how for noun, kind in nouns.items() for verb, how in verbs(kind).items()}


@pytest.fixture(params=[Client, AsyncClient])
def client(request: pytest.FixtureRequest) -> Client | AsyncClient:
    made: Client | AsyncClient = request.param("http://127.0.0.1:1", token="")
    return made


def test_every_verb_of_the_control_service_is_on_the_client_and_the_other_way_round(
    client: Client | AsyncClient,
) -> None:
    local, remote = of_control().keys(), of_client(client).keys()
    assert local - remote == NOT_REMOTE.keys()
    assert remote - local == ONLY_REMOTE.keys()


def test_the_verbs_have_the_same_parameters(client: Client | AsyncClient) -> None:
    local, remote = of_control(), of_client(client)

    def shape(how: inspect.Signature) -> list[tuple[str, object, object]]:
        return [(one.name, one.kind, one.default) for one in how.parameters.values() if one.name != "self"]

    differing = {name for name in local.keys() & remote.keys() if shape(local[name]) != shape(remote[name])}
    assert differing == OTHER_PARAMETERS.keys()


@pytest.mark.parametrize("verb", ["submit", "submit_many", "submit_batch", "check", "events"])
def test_both_clients_have_the_same_calls(verb: str) -> None:
    one, other = (inspect.signature(getattr(kind, verb)) for kind in (Client, AsyncClient))
    assert list(one.parameters) == list(other.parameters)
