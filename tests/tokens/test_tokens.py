"""API tokens: their hashes, ends and uses, and who may make them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from windlass import App
from windlass.clock import ManualClock
from windlass.control.actor import ADMIN, OPERATOR
from windlass.control.roles import Role, principal_of, roles_of
from windlass.errors import ConfigError, NotAllowedError, TokenError
from windlass.features import Store
from windlass.model.principal import Principal
from windlass.observe import redact
from windlass.tokens.token import NewApiToken, make_text

BOSS = Principal("boss", roles=frozenset({ADMIN}))


@pytest.fixture
def app(store: Store) -> App:
    return App(store=store)


def refused(store: Store, text: str) -> str:
    """The code with which a text is refused."""
    with pytest.raises(TokenError) as caught:
        store.tokens.verify(text)
    assert text not in str(caught.value)
    return caught.value.code


def altered(made: NewApiToken) -> str:
    """The text of a token with another last character."""
    return made.text[:-1] + ("A" if made.text[-1] != "A" else "B")


def test_a_token_is_verified_until_it_is_revoked(app: App, store: Store) -> None:
    made = app.tokens.create("dashboard", ["view"])
    assert store.tokens.verify(made.text).id == made.token.id
    assert refused(store, altered(made)) == "token_unknown"
    assert app.tokens.revoke("dashboard", "leaked")
    assert refused(store, made.text) == "token_revoked"
    assert refused(store, altered(made)) == "token_unknown", "a wrong text learns nothing of the token"
    assert not app.tokens.revoke(made.token.id)


@pytest.mark.parametrize("text", ["", "wl_", "wl_x", "eyJ.a.b", "wl_" + "0" * 32 + "_" + "a" * 42, "ü" * 79])
def test_other_forms_are_no_tokens(store: Store, text: str) -> None:
    with pytest.raises(TokenError, match="form of an API token"):
        store.tokens.verify(text)


def test_an_unknown_id_is_refused_like_a_wrong_secret(app: App, store: Store) -> None:
    made = app.tokens.create("dashboard", ["view"])
    unknown = make_text("01890000-0000-7000-8000-000000000000")
    with pytest.raises(TokenError) as first:
        store.tokens.verify(unknown)
    with pytest.raises(TokenError) as second:
        store.tokens.verify(altered(made))
    assert str(first.value) == str(second.value)


def test_a_token_expires(app: App, store: Store, clock: ManualClock) -> None:
    made = app.tokens.create("week", ["view"], lasts=timedelta(days=7))
    forever = app.tokens.create("forever", ["view"], lasts=None)
    clock.advance(timedelta(days=7).total_seconds() - 1)
    assert store.tokens.verify(made.text).state == "live"
    clock.advance(1)
    assert refused(store, made.text) == "token_expired"
    assert store.tokens.verify(forever.text).expires_at is None
    assert [one.state for one in app.tokens.list()] == ["live", "expired"]


def test_a_use_is_written_once_a_minute(app: App, store: Store, clock: ManualClock) -> None:
    made = app.tokens.create("dashboard", ["view"])
    assert made.token.last_used_at is None
    first = clock.now()
    for _ in range(3):
        store.tokens.verify(made.text)
        clock.advance(19)
    assert app.tokens.list()[0].last_used_at == first
    clock.advance(3)
    store.tokens.verify(made.text)
    assert app.tokens.list()[0].last_used_at == clock.now()


def test_neither_the_database_nor_the_audit_trail_has_the_text(app: App, store: Store) -> None:
    made = app.tokens.create("dashboard", ["view", "operate"], tenant="acme", reason="wall")
    secret = made.text[36:]
    (record,) = app.audit.list(target="token", name="dashboard").records
    assert record.act == "token.create" and record.after["roles"] == ["operate", "view"]
    shown = json.dumps([repr(made), repr(made.token), str(record), repr(store.tokens.find("dashboard"))])
    assert secret not in shown
    assert secret not in str(redact(f"request with {made.text} failed")) and "wl_" not in str(
        redact(made.text)
    )


def test_a_name_is_free_again_after_the_token_was_revoked(app: App) -> None:
    app.tokens.create("dashboard", ["view"])
    with pytest.raises(ConfigError, match="in use"):
        app.tokens.create("dashboard", ["view"])
    assert len(app.audit.list(target="token").records) == 1, "what was refused is not recorded"
    app.tokens.revoke("dashboard")
    assert app.tokens.create("dashboard", ["view"]).token.state == "live"
    with pytest.raises(ConfigError, match="lists them"):
        app.tokens.revoke("nothing")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"roles": []}, "roles"),
        ({"roles": ["viw"]}, "did you mean view"),
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"lasts": timedelta(0)}, "lasts"),
        ({"issuer": "https://id.example"}, "issuer"),
        ({"subject": ""}, "subject"),
        ({"roles": ["admin"], "tenant": "acme"}, "not limited to a tenant"),
    ],
)
def test_what_cannot_be_a_token(shared_store: Store, arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        App(store=shared_store).tokens.create(**{"name": "x", "roles": ["view"], **arguments})  # type: ignore[arg-type]
    assert not shared_store.tokens.list()


Act = Callable[[App, Principal], object]
ACTS: dict[str, Act] = {
    "create": lambda app, who: app.acting_as(who).tokens.create("mine", ["admin"]),
    "list": lambda app, who: app.acting_as(who).tokens.list(),
    "revoke": lambda app, who: app.acting_as(who).tokens.revoke("dashboard"),
}


@pytest.mark.parametrize("act", ACTS)
def test_only_administrators_manage_tokens(shared_store: Store, act: str) -> None:
    app = App(store=shared_store)
    for who in (Principal("anna"), Principal("olga", roles=frozenset({OPERATOR}))):
        with pytest.raises(NotAllowedError, match="windlass:admin"):
            ACTS[act](app, who)


def test_an_administrator_manages_tokens_under_its_own_name(app: App) -> None:
    made = app.acting_as(BOSS).tokens.create("dashboard", ["view"])
    assert made.token.created_by == "boss"
    assert app.audit.list(target="token").records[0].subject == "boss"


def test_the_principal_of_a_token(shared_store: Store) -> None:
    app = App(store=shared_store)
    service = principal_of(app.tokens.create("wall", ["view"], tenant="acme").token)
    assert service.is_service and service.subject == "token:wall" and service.tenant == "acme"
    assert roles_of(service) == {Role.VIEW}
    assert app.acting_as(service).actor.scope.parameters()["sees"] == "tenant"
    anna = principal_of(
        app.tokens.create("anna's", ["submit", "operate"], subject="anna", tenant="acme").token
    )
    assert anna.is_same_as(Principal("anna", tenant="acme"))
    assert roles_of(anna) == {Role.SUBMIT, Role.VIEW, Role.OPERATE}
    assert app.acting_as(anna).actor.scope.parameters()["sees"] == "own"
    for name in ("wall", "anna's"):
        app.tokens.revoke(name)
