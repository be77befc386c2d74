"""Whose rights a job has: whatever graph jobs make, none has more than any of those it comes from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.errors import ConfigError, PrincipalErasedError
from windlass.model.principal import NOBODY, Principal
from windlass.principals.inheritance import Heir, inherit

roles = st.frozensets(st.sampled_from("abc"))
askers = st.builds(
    Principal,
    st.sampled_from(["u-1", "u-2"]),
    roles=roles,
    attributes=st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)),
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Heir], dict[str, Principal], set[str]]:
    """New jobs that come from earlier ones of the call and from jobs that were there, some of whose principals are erased."""
    there = [f"old-{n}" for n in range(draw(st.integers(0, 4)))]
    outside = {job: draw(askers) for job in there if draw(st.booleans())}
    with_one = {*outside, *(job for job in there if draw(st.booleans()))}
    heirs: list[Heir] = []
    for n in range(draw(st.integers(1, 6))):
        known = [*there, *(heir.id for heir in heirs)]
        parents = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
        heir_of = draw(st.lists(st.sampled_from(there), max_size=2, unique=True)) if there else []
        heirs.append(Heir(f"new-{n}", parents, heir_of, draw(st.none() | askers)))
    return draw(st.permutations(heirs)), outside, with_one


@given(graphs())
def test_no_job_has_more_rights_than_any_it_comes_from(
    case: tuple[list[Heir], dict[str, Principal], set[str]],
) -> None:
    """0 escalations."""
    heirs, outside, with_one = case
    try:
        found = inherit(heirs, outside, with_one)
    except (ConfigError, PrincipalErasedError):
        return
    for heir in heirs:
        mine = found.get(heir.id)
        if heir.principal is not None:
            assert mine == heir.principal
            continue
        sources = (*heir.parents, *heir.heir_of)
        rights = [outside.get(source) or found.get(source) for source in sources]
        is_bound = any(rights) or any(source in with_one for source in sources)
        assert (mine is not None) == is_bound, "an heir of somebody is never free"
        for source, one in zip(sources, rights, strict=True):
            if mine is not None and one is not None:
                assert mine == NOBODY or mine.is_within(one)
            if one is None and source in with_one:
                assert mine == NOBODY


def test_order_does_not_matter() -> None:
    a = Principal("u", roles={"a", "b"})
    b = Principal("u", roles={"b", "c"})
    heirs = [Heir("child", ["one", "two"], [], None), Heir("one", [], [], a), Heir("two", [], [], b)]
    for order in (heirs, heirs[::-1]):
        assert inherit(order, {}, set())["child"] == Principal("u", roles={"b"})


def test_a_long_chain_is_no_deep_one() -> None:
    heirs = [
        Heir(str(n), [str(n - 1)] if n else [], [], Principal("u") if not n else None) for n in range(20_000)
    ]
    assert len(inherit(heirs[::-1], {}, set())) == 20_000


@pytest.mark.parametrize("parents", [["a", "b"], ["b", "a"], ["a", "free", "b"]])
def test_different_principals_are_told_to_whoever_enqueues(parents: list[str]) -> None:
    outside: dict[str, Any] = {"a": Principal("u-1"), "b": Principal("u-2")}
    with pytest.raises(ConfigError, match="different principals"):
        inherit([Heir("child", parents, [], None)], outside, {"a", "b"})
    assert inherit([Heir("child", [], parents, None)], outside, {"a", "b"}) == {"child": NOBODY}
