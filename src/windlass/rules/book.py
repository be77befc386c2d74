"""Rules as code defines them: checked where they are written as far as they can be, and against the kinds when a worker starts.

A rule may be written before the kinds it names are defined, so names, arguments and retry policies are resolved at the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING

from windlass.arguments.importable import module_of
from windlass.errors import ConfigError, did_you_mean
from windlass.model import DEFAULT_MAX_ATTEMPTS, DEFAULT_PRIORITY, DependencyPolicy
from windlass.model.rule import (
    ALL,
    FAILURE_PARAMETERS,
    Rule,
    RuleEvent,
    Source,
    default_args,
    default_name,
    refuse_cycles,
)

if TYPE_CHECKING:
    from windlass.handlers.registry import Phase, Registry


@dataclass(frozen=True, slots=True)
class _WrittenRule:
    """A rule as it was written; what it leaves open is resolved later."""

    rule: Rule
    has_own_phase: bool
    has_own_attempts: bool
    has_own_args: bool
    is_elsewhere: bool


class RuleBook:
    """The rules of one application."""

    def __init__(self) -> None:
        self._written: dict[str, _WrittenRule] = {}

    def __len__(self) -> int:
        return len(self._written)

    def add(
        self,
        parents: Sequence[str],
        create: str,
        *,
        source: str,
        key: Sequence[str] = (),
        args: Mapping[str, Source] | None = None,
        name: str | None = None,
        policy: str = DependencyPolicy.CANCEL,
        priority: int = DEFAULT_PRIORITY,
        max_attempts: int | None = None,
        inherit: bool = True,
        phase: str | None = None,
        elsewhere: bool = False,
        on: str = RuleEvent.SUCCESS,
    ) -> None:
        """Add a rule; mistakes that need no other definition to be seen are refused here, a circle of rules with it drawn."""
        if isinstance(key, str):
            raise ConfigError("key", key, f'a list of paths: ["{key}"]')
        try:
            chosen = DependencyPolicy(policy)
        except ValueError:
            raise ConfigError("policy", policy, "cancel, wait or run") from None
        try:
            event = RuleEvent(on)
        except ValueError:
            raise ConfigError("on", on, "success or failure") from None
        from windlass.rules.store import check_rule  # late: it loads what writes jobs

        rule = check_rule(
            Rule(
                name=default_name(parents, create, event) if name is None else name,
                parents=tuple(parents),
                create=create,
                phase=create if phase is None else phase,
                key=tuple(key),
                args=_default_args(key, event) if args is None else args,
                policy=chosen,
                priority=priority,
                max_attempts=DEFAULT_MAX_ATTEMPTS if max_attempts is None else max_attempts,
                inherit=inherit,
                source=source,
                event=event,
            )
        )
        if rule.name in self._written:
            raise ConfigError("name", rule.name, "a name that no other rule has; give one with name=")
        refuse_cycles([*(written.rule for written in self._written.values()), rule])
        self._written[rule.name] = _WrittenRule(
            rule, phase is not None, max_attempts is not None, args is not None, elsewhere
        )

    def parameters_read(self, kind: str, parameters: Iterable[str]) -> set[str]:
        """Which of a kind's parameters rules read from its jobs."""
        read: set[str] = set()
        for written in self._written.values():
            rule = written.rule
            if kind in rule.parents and not written.has_own_args and rule.event is RuleEvent.FAILURE:
                read |= set(parameters)  # which of them is known when the child is
            elif kind in rule.parents:
                paths = [
                    *rule.key,
                    *(path if isinstance(path, str) else path[1] for path in rule.args.values()),
                ]
                for root, _, rest in (path.partition(".") for path in paths):
                    if root == "args":
                        read |= {rest.partition(".")[0]} if rest else set(parameters)
        return read

    def resolved(self, registry: Registry) -> list[Rule]:
        """The rules as they go into the database; ``ConfigError`` for kinds that are not defined and for arguments that would not fit."""
        return [_resolve(written, registry) for written in self._written.values()]

    @property
    def modules(self) -> set[str]:
        """The modules these rules are written in."""
        return {written.rule.source for written in self._written.values()}


def _resolve(written: _WrittenRule, registry: Registry) -> Rule:
    rule = written.rule
    child = _first(registry, rule.create)
    parents = {kind: _first(registry, kind) for kind in rule.parents}
    if not written.is_elsewhere:
        for kind, phase in ((rule.create, child), *parents.items()):
            if phase is None:
                raise _unknown(rule, kind, registry)
    for kind, phase in parents.items():
        _check_paths(rule, kind, phase)
    if child is None:
        return rule
    if rule.event is RuleEvent.FAILURE and not written.has_own_args:
        rule = replace(rule, args=_failure_args(child, parents[rule.parents[0]]))
    _check_args(rule, child, next(iter(parents.values())))
    return replace(
        rule,
        phase=rule.phase if written.has_own_phase else child.name,
        max_attempts=rule.max_attempts if written.has_own_attempts else child.retry.attempts,
    )


def _default_args(key: Sequence[str], event: RuleEvent) -> Mapping[str, Source]:
    return {"job_id": "id", "error": "error"} if event is RuleEvent.FAILURE else default_args(key)


def _failure_args(child: Phase, parent: Phase | None) -> Mapping[str, Source]:
    """What a handler for failures gets when the rule does not say: its parameters by their names, facts of the failed job first, then
    the failed job's own arguments."""
    own = parent.signature.parameters if parent is not None else ()
    return {
        name: FAILURE_PARAMETERS.get(name, f"args.{name}")
        for name in child.signature.parameters
        if name in FAILURE_PARAMETERS or name in own
    }


def _first(registry: Registry, kind: str) -> Phase | None:
    found = registry.kind(kind)
    return found.first if found else None


def _unknown(rule: Rule, kind: str, registry: Registry) -> ConfigError:
    known = sorted(item.name for item in registry)
    near = did_you_mean(kind, known)
    return ConfigError(
        f"a kind of the rule {rule.name}",
        kind,
        f"one of the kinds that are defined ({', '.join(known) or 'none'}), or given with elsewhere=True if another application serves it{near}",
    )


def _check_paths(rule: Rule, kind: str, parent: Phase | None) -> None:
    """Paths into the arguments of a parent whose handler is known must begin with one of its parameters."""
    if parent is None:
        return
    sources = [*rule.key, *(path for path in rule.args.values() if isinstance(path, str))]
    sources += [path[1] for path in rule.args.values() if not isinstance(path, str) and path[0] == kind]
    for path in sources:
        root, _, rest = path.partition(".")
        field = rest.partition(".")[0]
        if root == "args" and field and field not in parent.signature.parameters:
            takes = ", ".join(parent.signature.parameters) or "nothing"
            raise ConfigError(
                f"path in rule {rule.name}", path, f"an argument of {kind}, which takes {takes}"
            )


def _check_args(rule: Rule, child: Phase, parent: Phase | None) -> None:
    """The child must take what it is given, and be given what it needs."""
    takes = child.signature.parameters
    given = {name for name in rule.args if name != ALL}
    if ALL in rule.args:
        if rule.args[ALL] != "args" or parent is None:
            return  # not known before the job exists
        given |= set(parent.signature.parameters)
    surplus = sorted(given - set(takes))
    if surplus:
        raise ConfigError(
            f"args of rule {rule.name}",
            ", ".join(surplus),
            f"among what {rule.create} takes ({', '.join(takes) or 'nothing'}); say with args= what it gets",
        )
    needed = [
        parameter.name
        for parameter in inspect.signature(child.handler).parameters.values()
        if parameter.name in takes and parameter.default is parameter.empty
    ]
    lacking = [name for name in needed if name not in given]
    if lacking:
        raise ConfigError(
            f"args of rule {rule.name}",
            ", ".join(sorted(given)) or "none",
            because=f"{rule.create} also needs {', '.join(lacking)}; say with args= where it comes from",
        )


def written_in(frame: FrameType | None) -> str:
    """The module that a call is in."""

    def here() -> None: ...

    here.__module__ = str(frame.f_globals.get("__name__", "?")) if frame else "?"
    return module_of(here)[:255]
