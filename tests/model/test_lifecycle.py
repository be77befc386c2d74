"""The life of a job as data."""

from __future__ import annotations

import pytest

from windlass.errors import IllegalTransitionError
from windlass.model import State, lifecycle

# From the source document's table, plus waiting and scheduled: (from, to) pairs that may happen.
ALLOWED = {
    ("waiting", "queued"),
    ("waiting", "scheduled"),
    ("waiting", "cancelled"),
    ("scheduled", "queued"),
    ("scheduled", "scheduled"),
    ("scheduled", "waiting"),
    ("scheduled", "cancelled"),
    ("queued", "processing"),
    ("queued", "cancelled"),
    ("processing", "queued"),
    ("processing", "scheduled"),
    ("processing", "waiting"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("processing", "cancelled"),
    ("completed", "queued"),
    ("completed", "waiting"),
    ("failed", "queued"),
    ("failed", "waiting"),
    ("cancelled", "queued"),
    ("cancelled", "waiting"),
}


def test_only_the_documented_transitions_are_possible() -> None:
    possible = {
        (str(a), str(b)) for move in lifecycle.MOVES.values() for a in move.sources for b in move.targets
    }
    assert possible == ALLOWED


@pytest.mark.parametrize("verb", lifecycle.MOVES)
@pytest.mark.parametrize("state", State)
def test_a_verb_is_refused_from_every_other_state(verb: str, state: State) -> None:
    if state in lifecycle.MOVES[verb].sources:
        lifecycle.require(verb, "job-1", state)
        return
    with pytest.raises(IllegalTransitionError) as caught:
        lifecycle.require(verb, "job-1", state)
    assert "job-1" in str(caught.value) and str(state) in str(caught.value)
    assert (
        caught.value.to_state in str(caught.value)
        and caught.value.allowed_from == lifecycle.MOVES[verb].sources
    )


def test_ends_are_final() -> None:
    assert {state for state in State if state.is_final} == {State.COMPLETED, State.FAILED, State.CANCELLED}
