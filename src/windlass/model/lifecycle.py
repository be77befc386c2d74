"""The life of a job as data: verb, from-states, to-states.

The database holds the same truth in its own way: a state is the table a row is in (plus its token), CHECKs tie each
table's columns together, and rows of history refuse to be updated. Code checks this table before it acts, and
what error messages and the documentation's drawing are made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from windlass.errors import IllegalTransitionError
from windlass.model import State


class Move(NamedTuple):
    """The move of a verb: the states it may start from and the ones it may lead to."""

    sources: tuple[State, ...]
    targets: tuple[State, ...]


_LIVE = (State.WAITING, State.SCHEDULED, State.QUEUED, State.PROCESSING)
_ENDED = (State.COMPLETED, State.FAILED, State.CANCELLED)

MOVES: Mapping[str, Move] = MappingProxyType(
    {
        "enqueue": Move((), (State.QUEUED, State.SCHEDULED, State.WAITING)),
        "promote": Move((State.SCHEDULED, State.WAITING), (State.QUEUED, State.SCHEDULED)),
        "park": Move((State.SCHEDULED, State.PROCESSING, *_ENDED), (State.WAITING,)),
        "admit": Move((State.WAITING,), (State.QUEUED,)),
        "claim": Move((State.QUEUED,), (State.PROCESSING,)),
        "advance": Move((State.PROCESSING,), (State.QUEUED,)),
        "release": Move((State.PROCESSING,), (State.QUEUED, State.SCHEDULED)),
        "retry later": Move((State.PROCESSING,), (State.SCHEDULED,)),
        "recover": Move((State.PROCESSING,), (State.QUEUED, State.SCHEDULED, *_ENDED)),
        "complete": Move((State.PROCESSING,), (State.COMPLETED,)),
        "fail": Move((State.PROCESSING,), (State.FAILED,)),
        "cancel": Move(_LIVE, (State.CANCELLED,)),
        "retry": Move(_ENDED, (State.QUEUED,)),
        "revive": Move((State.CANCELLED,), (State.WAITING,)),
    }
)


def require(verb: str, job_id: str, state: State) -> None:
    """Refuse a verb that ``state`` does not allow, naming both states."""
    move = MOVES[verb]
    if state not in move.sources:
        raise IllegalTransitionError(job_id, verb, state, move.targets[0], move.sources)
