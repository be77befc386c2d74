"""Rules: "when jobs of these kinds complete, create a job of that kind". Data, so that any instance can act on them.

A rule with one parent makes a child of every job of that kind. A rule with several is a fan-in: jobs of its kinds belong together
where their keys have the same value, and the child is made when each kind has completed for it.

Keys and arguments are paths into a parent: ``args.period``, ``args.address.city``, ``args.items.0``, ``result.total``, ``args`` and
``result`` as a whole, ``error``, ``error.message``, ``id``, ``kind``, ``correlation_id``, ``state``. What a path does not find is null.
Everything here is pure; the store keeps rules and fires them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from windlass.errors import ConfigError, RuleCycleError
from windlass.model import DEFAULT_MAX_ATTEMPTS, DEFAULT_PRIORITY, DependencyPolicy, State

ALL = "*"
"""As the name of an argument: everything the path leads to, each under its own name."""

MOST_PARENTS = 100
MOST_ARGS = 100
LONGEST_KEY = 300  # an index entry has room for 2,700 bytes, the rule's name included
_PATH = re.compile(r"(args|result|error)(\.[^.\s][^.]{0,99}){0,10}|id|kind|correlation_id|state")
_KEY_PATH = re.compile(r"args(\.[^.\s][^.]{0,99}){1,10}|correlation_id")

Source = str | tuple[str, str]
"""The source of an argument: a path, or the kind of the parent and a path."""


class RuleEvent(StrEnum):
    """Which ends of a parent a rule is about: its completion, or its failure after the last attempt."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When jobs of ``parents`` completed, a job of the kind ``create`` is made and put into the queue of ``phase``; for the event ``FAILURE``,
    when a job of its one parent failed.

    ``key`` holds the paths whose values say which parents belong together; a rule with one parent has none. ``args`` says what the child
    gets: its argument's name → where it comes from. ``policy`` is for parents that fail or are cancelled: no child (cancel), none until
    it is retried and completes (wait), a child all the same (run). ``inherit`` passes the correlation id on. ``source`` is the
    module that defined it.
    """

    name: str
    parents: tuple[str, ...]
    create: str
    phase: str
    key: tuple[str, ...] = ()
    args: Mapping[str, Source] = field(default_factory=dict)
    policy: DependencyPolicy = DependencyPolicy.CANCEL
    priority: int = DEFAULT_PRIORITY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    inherit: bool = True
    source: str = "api"
    event: RuleEvent = RuleEvent.SUCCESS

    @property
    def is_fan_in(self) -> bool:
        return len(self.parents) > 1

    def is_satisfied_by(self, state: State) -> bool:
        """Whether an end of this kind is what the rule waits for, or as good as that."""
        if self.event is RuleEvent.FAILURE:
            return state is State.FAILED
        return state is State.COMPLETED or self.policy is DependencyPolicy.RUN


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule as the database has it. ``gone_at`` is set when the module that defined it no longer does."""

    rule: Rule
    defined_at: datetime
    changed_at: datetime
    gone_at: datetime | None


@dataclass(frozen=True, slots=True)
class Part:
    """One parent's share of a fan-in: the job of this kind that counts, and how it ended."""

    kind: str
    job_id: str
    state: State
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FanIn:
    """A child that is not made yet, or could not be: which parents have ended, which are missing.

    ``key`` is the value the parents share (for a rule with one parent: that job's id), ``round`` how many children were made for it
    before, plus one. ``is_cancelled`` says that a parent did not complete and that by the rule there is no child, unless that parent
    is retried and completes. ``error`` says why the child could not be made of what the parents left.
    """

    rule: str
    key: Any
    round: int
    opened_at: datetime
    complete: Sequence[Part] = ()
    failed: Sequence[Part] = ()
    missing: Sequence[str] = ()
    is_cancelled: bool = False
    error: str | None = None


def check_paths(rule: Rule) -> None:
    """Refuse paths that lead nowhere, and arguments that could mean several parents."""
    for path in rule.key:
        if not _is_path(path, _KEY_PATH):
            raise ConfigError("key", path, "a path into the arguments such as args.period, or correlation_id")
    if len(set(rule.key)) != len(rule.key):
        raise ConfigError("key", list(rule.key), because="it must name each path once")
    if len(rule.args) > MOST_ARGS:
        raise ConfigError("args", f"{len(rule.args)} of them", f"at most {MOST_ARGS}")
    for name, source in rule.args.items():
        kind, path = _split_source(source)
        if not _is_path(path, _PATH):
            raise ConfigError(
                f"args of {name}",
                path,
                "a path such as args.period, result.total, error.message, args, result, error, id, kind, correlation_id or state",
            )
        if kind is not None and kind not in rule.parents:
            raise ConfigError(f"args of {name}", kind, f"one of the parents: {', '.join(rule.parents)}")
        if kind is None and rule.is_fan_in and path not in rule.key:
            raise ConfigError(
                f"args of {name}",
                path,
                f"a path of the key ({', '.join(rule.key)}), or a pair that says of which parent: "
                f'("{rule.parents[0]}", "{path}")',
            )


def default_args(key: Sequence[str]) -> dict[str, Source]:
    """The fields of the key under their own names; without a key, all arguments of the parent."""
    if not key:
        return {ALL: "args"}
    fields = [path for path in key if path != "correlation_id"]
    args: dict[str, Source] = {path.rpartition(".")[2]: path for path in fields}
    if len(args) < len(fields):
        raise ConfigError(
            "args",
            None,
            because=f"say what the child gets: two paths of the key end alike ({', '.join(key)})",
        )
    return args


FAILURE_PARAMETERS: Mapping[str, str] = {
    "job_id": "id",
    "kind": "kind",
    "error": "error",
    "args": "args",
    "correlation_id": "correlation_id",
}
"""What a handler for failures is given without ``args``: its parameters of these names, and where they come from."""


def default_name(parents: Sequence[str], create: str, event: RuleEvent = RuleEvent.SUCCESS) -> str:
    """The name of a rule that was given none."""
    name = f"{'+'.join(parents)}{' failed' if event is RuleEvent.FAILURE else ''}->{create}"
    if len(name) <= 200:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{parents[0][:60]}+{len(parents) - 1}->{create[:60]}#{digest}"


def refuse_cycles(rules: Iterable[Rule]) -> None:
    """Refuse rules that would make jobs forever: a cycle of kinds that create each other."""
    made_by = {(parent, rule.create): rule.name for rule in rules for parent in rule.parents}
    kinds: TopologicalSorter[str] = TopologicalSorter()
    for parent, child in made_by:
        kinds.add(parent)
        kinds.add(child, parent)
    try:
        kinds.prepare()
    except CycleError as error:
        cycle = error.args[1]
        raise RuleCycleError(cycle, [made_by[step] for step in pairwise(cycle)]) from None


def find(path: str, facts: Mapping[str, Any]) -> Any:
    """The value at a path in a parent's facts; None if there is none."""
    value: Any = facts
    for step in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def key_of(rule: Rule, facts: Mapping[str, Any]) -> str:
    """The value of a fan-in's key, as text that is equal for equal values. One that is too long for an index is cut, with a
    digest of the whole behind it."""
    return key_text([find(path, facts) for path in rule.key])


def key_text(values: Sequence[Any]) -> str:
    """The text of a key with these values, as ``key_of`` makes it."""
    text = json.dumps(
        [_normal(value) for value in values], ensure_ascii=False, sort_keys=True, separators=(",", ":")
    )
    if len(text) <= LONGEST_KEY:
        return text
    return f"{text[:200]}…#{hashlib.sha256(text.encode()).hexdigest()}"


def key_value(text: str) -> Any:
    """The value behind a key's text; the text itself where it was cut."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def share_of(rule: Rule, kind: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a parent of this kind adds to the child's."""
    share: dict[str, Any] = {}
    for name, source in rule.args.items():
        of, path = _split_source(source)
        if of is not None and of != kind:
            continue
        value = find(path, facts)
        if name != ALL:
            share[name] = value
        elif isinstance(value, Mapping):
            share = {**value, **share}
    return share


def _is_path(path: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(path, str) and bool(pattern.fullmatch(path))


def _split_source(source: Any) -> tuple[str | None, Any]:
    if isinstance(source, str):
        return None, source
    if isinstance(source, tuple | list) and len(source) == 2:
        return source[0], source[1]
    raise ConfigError(
        "args", source, 'a path, or a pair of a parent\'s kind and a path: ("report", "result.total")'
    )


def _normal(value: Any) -> Any:
    """1.0 and 1 are the same key."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _normal(item) for name, item in value.items()}
    return [_normal(item) for item in value] if isinstance(value, list) else value
