"""The rights of a job that was enqueued without a principal: those of the jobs it comes from, and never more than each of them.

Jobs without a principal do not count here: they have no rights to pass on. Where several have
one, the heir may do what all of them allow; of different principals that is nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from windlass.errors import ConfigError, PrincipalErasedError
from windlass.model.principal import NOBODY, Principal


@dataclass(frozen=True, slots=True)
class Heir:
    """A new job: the jobs it waits for, the jobs it comes from without waiting for them, and its own principal."""

    id: str
    parents: Sequence[str]
    heir_of: Sequence[str]
    principal: Principal | None


def inherit(
    heirs: Sequence[Heir], outside: Mapping[str, Principal], with_one: Collection[str]
) -> dict[str, Principal]:
    """The principal of each heir that has one. ``outside`` are the principals of jobs that exist already; ``with_one`` are all of those
    that have one, or had one that was erased.

    A caller whose job waits for jobs of different principals, or for one whose principal is erased, gets an error. What comes from
    jobs without waiting for them cannot be refused, because they have ended: it may do nothing.
    """
    found = dict(outside)
    found |= {heir.id: heir.principal for heir in heirs if heir.principal is not None}
    for heir in _parents_first({heir.id: heir for heir in heirs}):
        if heir.principal is None and (met := _common_principal(heir, found, with_one)) is not None:
            found[heir.id] = met
    return {heir.id: found[heir.id] for heir in heirs if heir.id in found}


def _common_principal(
    heir: Heir, found: Mapping[str, Principal], with_one: Collection[str]
) -> Principal | None:
    met: Principal | None = None
    for source in (*heir.parents, *heir.heir_of):
        one = found.get(source)
        if one is None and source not in with_one:
            continue
        if one is None and not heir.heir_of:
            raise PrincipalErasedError(source)
        met = (one or NOBODY) if met is None else met.meet(one or NOBODY)
    if met == NOBODY and len(heir.parents) > 1 and not heir.heir_of:
        raise ConfigError(
            "principal", None, "given, because the jobs that this one waits for have different principals"
        )
    return met


def _parents_first(heirs: Mapping[str, Heir]) -> list[Heir]:
    """Jobs of one call, each behind those of them it waits for; there is no circle."""
    ordered: dict[str, Heir] = {}
    stack = [(heir.id, False) for heir in heirs.values()]
    while stack:
        job_id, is_ready = stack.pop()
        if job_id in ordered or job_id not in heirs:
            continue
        if is_ready:
            ordered[job_id] = heirs[job_id]
        else:
            stack.append((job_id, True))
            stack.extend((parent, False) for parent in heirs[job_id].parents)
    return list(ordered.values())
