"""Principals: what they allow, that they cannot be changed, and that nothing made of one allows more."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ConfigError, NotAllowedError, PayloadError
from windlass.model.principal import NOBODY, Principal

SOON = datetime(2030, 1, 1, tzinfo=UTC)
USER = Principal(
    "u-7",
    tenant="acme",
    roles=frozenset({"reports.read", "reports.write"}),
    attributes={"county": ["Harju", "Tartu"], "level": 3, "night": True},
    issuer="https://id.example",
    expires_at=SOON,
    token_id="t-1",
)


def _naive(year: int) -> datetime:
    return datetime(year, 1, 1)  # noqa: DTZ001  what hypothesis wants, and what a principal refuses


names = st.sampled_from(["a", "b", "c", "d"])
scalars = st.sampled_from(["x", "y", "1", 1, 0, 2, 1.5, True, False])
moments = st.none() | st.datetimes(_naive(2000), _naive(2100), timezones=st.just(UTC))
attributes = st.dictionaries(names, scalars | st.lists(scalars, max_size=4), max_size=4)
principals = st.builds(
    Principal,
    st.sampled_from(["u-1", "u-2"]),
    tenant=st.sampled_from([None, "acme"]),
    roles=st.frozensets(names),
    attributes=attributes,
    issuer=st.sampled_from([None, "i"]),
    expires_at=moments,
    token_id=st.sampled_from([None, "t"]),
    is_service=st.booleans(),
)
same = st.builds(
    Principal, st.just("u-1"), roles=st.frozensets(names), attributes=attributes, expires_at=moments
)


def test_roles_are_had_or_required() -> None:
    assert USER.has("reports.read") and not USER.has("reports")
    USER.require("reports.read", "reports.write")
    with pytest.raises(NotAllowedError, match="'u-7' lacks the role admin, users; ask for it") as caught:
        USER.require("reports.read", "users", "admin")
    assert caught.value.code == "not_allowed"
    assert caught.value.missing == ("admin", "users") and caught.value.subject == "u-7"


def test_data_is_filtered_by_attributes_and_what_is_not_claimed_allows_nothing() -> None:
    assert USER.allowed_values("county") == ["Harju", "Tartu"] and USER.allowed_values("level") == [3]
    assert USER.allowed_values("unit") == [] and USER.attribute("unit") is None
    assert USER.attribute("county") == ("Harju", "Tartu") and USER.attribute("level") == 3
    assert USER.allows(county="Tartu", level=3) and not USER.allows(county="Tartu", level=4)
    assert not USER.allows(unit="x") and not USER.allows(county="Võru") and not USER.allows(county=["Tartu"])
    assert not USER.allows(night=1) and not USER.allows(level=True), "a number is no boolean"
    USER.allowed_values("county").append("Võru")
    assert USER.allowed_values("county") == ["Harju", "Tartu"]


def test_a_principal_cannot_be_changed() -> None:
    changes: list[Any] = [
        lambda: setattr(USER, "subject", "u-8"),
        lambda: USER.attributes.__setitem__("county", "Võru"),  # type: ignore[index]
        lambda: USER.attributes.update(county="Võru"),  # type: ignore[attr-defined]
        lambda: USER.attributes.pop("county"),  # type: ignore[attr-defined]
        lambda: USER.attributes.clear(),  # type: ignore[attr-defined]
        lambda: USER.attributes.setdefault("unit", "x"),  # type: ignore[attr-defined]
        lambda: USER.roles.add("admin"),  # type: ignore[attr-defined]
    ]
    for change in changes:
        with pytest.raises((TypeError, AttributeError)):
            change()
    given_ = {"county": ["Harju"]}
    made = Principal("u", attributes=given_)
    given_["county"].append("Tartu")
    given_["unit"] = ["x"]
    assert made.attributes == {"county": ("Harju",)}


def test_a_principal_is_a_value() -> None:
    twin = Principal.from_json(USER.to_json())
    assert twin == USER and hash(twin) == hash(USER) and len({twin, USER}) == 1
    assert copy.deepcopy(USER) == USER and pickle.loads(pickle.dumps(USER)) == USER
    assert dataclasses.asdict(USER)["attributes"]["level"] == 3
    local = SOON.astimezone(timezone(timedelta(hours=2)))
    assert Principal("u", expires_at=local).expires_at == SOON
    assert (
        Principal("u", expires_at=local).to_json()
        == '{"subject":"u","expires_at":"2030-01-01T00:00:00+00:00"}'
    )


def test_what_people_may_see_in_a_log_has_no_attributes() -> None:
    assert repr(USER) == "<Principal 'u-7' of 'acme', 2 roles>"
    assert "Harju" not in f"{USER}"


def test_expiry_is_a_moment() -> None:
    assert USER.is_expired(SOON) and not USER.is_expired(SOON - timedelta(microseconds=1))
    assert not Principal("u").is_expired(SOON)


def test_a_service_is_named_and_does_not_expire() -> None:
    nightly = Principal.service(
        "cron:nightly", roles=["reports.read"], tenant="acme", attributes={"county": "Harju"}
    )
    assert nightly.is_service and nightly.has("reports.read") and nightly.expires_at is None
    assert nightly.subject == "cron:nightly" and nightly.tenant == "acme"
    assert not nightly.is_same_as(Principal("cron:nightly", tenant="acme")), (
        "a person of that name is somebody else"
    )


def test_narrowed_names_the_most_that_is_left() -> None:
    small = USER.narrowed(
        roles=["reports.read", "admin"], attributes={"county": ["Tartu", "Võru"], "unit": "x"}
    )
    assert small.roles == {"reports.read"}
    assert small.attributes == {"county": ("Tartu",), "level": 3, "night": True}
    assert USER.narrowed() == USER and USER.narrowed(roles=[]).roles == frozenset()
    assert "level" not in USER.narrowed(attributes={"level": 4}).attributes
    assert "night" not in USER.narrowed(attributes={"night": 1}).attributes
    assert USER.narrowed(expires_at=SOON - timedelta(days=1)).expires_at == SOON - timedelta(days=1)
    assert USER.narrowed(expires_at=SOON + timedelta(days=1)).expires_at == SOON
    with pytest.raises(ConfigError, match=r"principal\.roles"):
        USER.narrowed(roles="admin")


@given(principals, st.none() | st.frozensets(names), st.none() | attributes, moments)
def test_narrowed_never_allows_more(base: Principal, roles: Any, most: Any, until: Any) -> None:
    small = base.narrowed(roles=roles, attributes=most, expires_at=until)
    assert small.is_within(base)
    assert small.roles <= base.roles and (roles is None or small.roles <= roles)
    for name in "abcd":
        assert all(base.allows(**{name: value}) for value in small.allowed_values(name))
        if most is not None and name in most:
            limit = Principal("x", attributes=most)
            assert all(limit.allows(**{name: value}) for value in small.allowed_values(name))


@given(st.lists(principals, min_size=1, max_size=4))
def test_the_meet_of_principals_allows_no_more_than_each(several: list[Principal]) -> None:
    """0 escalations: whatever the order, and whoever they are."""
    for order in (several, several[::-1]):
        met = reduce(Principal.meet, order)
        for one in several:
            assert met.roles <= one.roles and (met == NOBODY or met.is_within(one))
            for name in "abcd":
                assert all(one.allows(**{name: value}) for value in met.allowed_values(name))


@given(same, same, same)
def test_within_is_an_order_and_meet_its_greatest_lower_bound(
    a: Principal, b: Principal, c: Principal
) -> None:
    assert a.is_within(a) and a.meet(b).is_within(a) and a.meet(b).is_within(b)
    if a.is_within(b) and b.is_within(c):
        assert a.is_within(c)
    if c.is_within(a) and c.is_within(b):
        assert c.is_within(a.meet(b))


@pytest.mark.parametrize(
    "change",
    [
        {"subject": "u-8"},
        {"tenant": "other"},
        {"tenant": None},
        {"issuer": None},
        {"is_service": True},
        {"roles": USER.roles | {"admin"}},
        {"attributes": {"county": ["Harju", "Võru"]}},
        {"attributes": {"unit": "x"}},
        {"attributes": {"night": 1}},
        {"expires_at": None},
        {"expires_at": SOON + timedelta(seconds=1)},
    ],
)
def test_what_is_more_than_another_is_not_within_it(change: dict[str, Any]) -> None:
    assert not dataclasses.replace(USER, **change).is_within(USER)


@given(principals)
def test_what_is_written_comes_back(principal: Principal) -> None:
    assert Principal.from_json(principal.to_json()) == principal


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("", {}),
        ("  ", {}),
        ("u" * 256, {}),
        ("u\n7", {}),
        ("u\x00", {}),
        (7, {}),
        (None, {}),
        ("u", {"roles": "admin"}),
        ("u", {"roles": {"admin": True}}),
        ("u", {"roles": [7]}),
        ("u", {"roles": [""]}),
        ("u", {"roles": [f"r{n}" for n in range(501)]}),
        ("u", {"roles": None}),
        ("u", {"tenant": ""}),
        ("u", {"tenant": 7}),
        ("u", {"issuer": ["i"]}),
        ("u", {"token_id": 7}),
        ("u", {"attributes": None}),
        ("u", {"attributes": ["county"]}),
        ("u", {"attributes": {"county": {"any": True}}}),
        ("u", {"attributes": {"county": [["Harju"]]}}),
        ("u", {"attributes": {"county": None}}),
        ("u", {"attributes": {"county": float("nan")}}),
        ("u", {"attributes": {"county": 2**63}}),
        ("u", {"attributes": {"county": "x" * 256}}),
        ("u", {"attributes": {"county": "\x00"}}),
        ("u", {"attributes": {"": "x"}}),
        ("u", {"attributes": {7: "x"}}),
        ("u", {"attributes": {"county": list(range(1001))}}),
        ("u", {"attributes": {f"a{n}": n for n in range(101)}}),
        ("u", {"expires_at": _naive(2030)}),
        ("u", {"expires_at": 1893456000}),
        ("u", {"is_service": 1}),
    ],
)
def test_what_can_be_no_principal_is_refused(name: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"principal\."):
        Principal(name, **options)


def test_a_principal_has_a_size() -> None:
    large = Principal("u", attributes={"county": [f"{n:0200}" for n in range(100)]})
    with pytest.raises(PayloadError, match="limit is 16,384"):
        large.to_json()


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "{}",
        '{"subject":7}',
        '{"subject":"u","subject":"v"}',
        '{"subject":"u","roles":"admin"}',
        '{"subject":"u","roles":{"admin":1}}',
        '{"subject":"u","expires_at":"soon"}',
        '{"subject":"u","expires_at":"2030-01-01"}',
        '{"subject":"u","expires_at":7}',
        '{"subject":"u","attributes":{"a":{"b":1}}}',
        '{"subject":"u","denied":["reports.read"]}',
        '{"subject":"u"',
    ],
)
def test_a_row_that_nobody_of_us_wrote_is_refused(text: str) -> None:
    """Also one that a later release wrote: what it says there may take rights away."""
    with pytest.raises(PayloadError):
        Principal.from_json(text)
