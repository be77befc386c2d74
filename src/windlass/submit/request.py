"""A job that is not submitted yet: a kind's arguments and options, kept for ``enqueue_many``, batches and chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from windlass.handlers.registry import Phase
from windlass.model import After, NewJob
from windlass.principals.authority import Authority
from windlass.submit.call import new_job
from windlass.submit.options import parents

P = ParamSpec("P")
R = TypeVar("R")


class Request(Generic[P, R]):
    """A call of a kind with its options, to be submitted later; made by ``kind.request(...)``.

    The arguments are validated when the request is submitted, by the call that submits it.
    """

    __slots__ = ("arguments", "options", "phase")

    def __init__(
        self, phase: Phase, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: Mapping[str, Any]
    ) -> None:
        self.phase = phase
        """The first phase of the kind."""
        self.arguments = phase.signature.by_name(args, kwargs)
        """The arguments by name, as they were given."""
        self.options = options
        """The options, as they were given to ``kind.options``."""

    @property
    def kind(self) -> str:
        """The name of the kind."""
        return self.phase.kind

    def new_job(self, authority: Authority, after: Sequence[After] = ()) -> NewJob:
        """The request as the store takes it, with validated arguments and the principal that asks here and now. It waits for the jobs of
        ``after``, besides the jobs of its own options."""
        options = self.options
        if after:
            options = {**options, "after": [*parents(options.get("after")), *after]}
        return new_job(self.phase, (), self.arguments, options, authority)

    def __repr__(self) -> str:
        return f"<request of {self.kind}>"
