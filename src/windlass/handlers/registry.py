"""Kinds of work and the registry that knows them: handler, phases, options.

A kind is a list of phases; a plain job is a pipeline of one. The registry is what an engine is given: it never sees the App.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final, Protocol

from windlass.arguments.asyncness import is_async, is_generator, marked_sync, place_of
from windlass.arguments.importable import module_of, why_not_importable
from windlass.arguments.signature import Signature
from windlass.errors import ConfigError, check_names, did_you_mean
from windlass.model import Advanced, Completed, Flow, JobLimit, Json, Lease, Rate, Route, Run, as_duration
from windlass.model import rate as rates
from windlass.model.principal import Expiry
from windlass.model.retry import RetryPolicy, exponential, linear
from windlass.ranges import is_number, is_whole
from windlass.rules.book import RuleBook
from windlass.schedules.code import CodeSchedule
from windlass.settings import LONGEST, PROCESSOR_RANGE, PROCESSORS, TIME_LIMIT
from windlass.store.validators import NAME_RULE, is_name

CHUNK_RETRY: RetryPolicy = linear(3, step=1.0)


class Where(StrEnum):
    """Where a handler runs: on the event loop, on a thread, or in a process of its own that can be killed."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


class Unsaid(Enum):
    """The value of an option that a phase leaves to the configuration; ``None`` is a value of its own."""

    UNSAID = "as configured"


UNSAID: Final = Unsaid.UNSAID


class Defaults(Protocol):
    """Defaults of phases that leave options out; read when they are needed, so that they may come from a configuration."""

    @property
    def retry(self) -> RetryPolicy: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def processors(self) -> int: ...


@dataclass(frozen=True, slots=True)
class FixedDefaults:
    """The defaults where there is no configuration."""

    retry: RetryPolicy = field(default_factory=exponential)
    timeout: float | None = TIME_LIMIT
    processors: int = PROCESSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One step of a kind: its handler and everything that may differ from step to step."""

    name: str
    label: str
    kind: str
    handler: Callable[..., Any]
    signature: Signature
    retry: RetryPolicy
    where: Where
    own_timeout: float | Unsaid | None = UNSAID
    own_processors: int | Unsaid = UNSAID
    defaults: Defaults = field(default_factory=FixedDefaults, compare=False, repr=False)
    probe: Callable[..., Any] | None = None
    chunk_retry: RetryPolicy = CHUNK_RETRY
    max_waiting: int | None = None  # with so many queued, the phase before is held back
    principal_expiry: Expiry = Expiry.RUN  # the policy for a job whose principal has expired
    flow: Flow | None = None  # what it allows over the whole fleet
    supplied: Mapping[str, Any] = field(
        default_factory=dict
    )  # parameters that are provided by type, besides the context
    _owner: Kind | None = field(default=None, compare=False, repr=False)

    @property
    def timeout(self) -> float | None:
        """Seconds that an attempt may take without progress; None is no limit."""
        return self.defaults.timeout if self.own_timeout is UNSAID else self.own_timeout

    @property
    def processors(self) -> int:
        """How many jobs of this phase an instance runs at once, unless its settings say otherwise."""
        return self.defaults.processors if self.own_processors is UNSAID else self.own_processors

    @property
    def is_limited(self) -> bool:
        """Whether this phase or one after it is."""
        return self._owner is not None and bool(self._owner.limited)

    def limits(self, args_json: str, key: str | None = None) -> list[JobLimit]:
        """The limits that are stored with a job of this phase's kind, one for each limited phase."""
        if self._owner is None or not self._owner.limited:
            if key is not None:
                raise ConfigError(
                    "limit_key", key, because=f"{self.kind} has no limit that it could belong to"
                )
            return []
        return self._owner.limits(args_json, key)

    @property
    def route(self) -> Route:
        """All phases of a kind that has several."""
        return self._owner.route if self._owner is not None and len(self._owner.phases) > 1 else ()

    def ended(self, lease: Lease, value: Json | None, run: Run | None = None) -> Completed | Advanced:
        """The outcome of a phase that ended with this value."""
        following = self.following
        if following is None:
            return Completed(lease, value, run, self.route)
        output = Json("null") if value is None else value
        return Advanced(lease, following.name, output, following.retry.attempts, run, self.route)

    @property
    def registry(self) -> Registry | None:
        """The kinds that this phase's kind was defined among; None for a phase without a registry."""
        return self._owner.registry if self._owner is not None else None

    @property
    def following(self) -> Phase | None:
        """The phase after this one; None after the last. Found on each access: later phases are defined later."""
        return self._owner.after(self.name) if self._owner else None


@dataclass(slots=True)
class Kind:
    """A named kind of work: its phases in order."""

    name: str
    phases: list[Phase] = field(default_factory=list)
    limited: list[Phase] = field(default_factory=list)
    registry: Registry | None = field(default=None, compare=False, repr=False)

    def limits(self, args_json: str, key: str | None = None) -> list[JobLimit]:
        """The limits that are stored with a job with these arguments, one for each limited phase; ``key`` replaces the phases' own keys."""
        return [rates.limit_of(phase.flow, args_json, key) for phase in self.limited if phase.flow]

    @property
    def first(self) -> Phase:
        return self.phases[0]

    @property
    def route(self) -> Route:
        return tuple((phase.name, phase.retry.attempts) for phase in self.phases)

    def after(self, phase: str) -> Phase | None:
        """The phase that follows the one of this name; None after the last."""
        if self.phases[-1].name == phase:
            return None
        return self.phases[[item.name for item in self.phases].index(phase) + 1]


class Registry:
    """All kinds of one application, by name, and their phases in the order they should be served."""

    def __init__(self, *, defaults: Defaults | None = None) -> None:
        self._defaults = defaults or FixedDefaults()
        self._kinds: dict[str, Kind] = {}
        self._phases: dict[str, Phase] = {}
        self._schedules: dict[str, CodeSchedule] = {}
        self.rules = RuleBook()
        self.around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
        """The wrapper of every handler and probe: a web framework's context, say. Set before kinds are defined."""

    def define(
        self,
        kind: str,
        handler: Callable[..., Any],
        *,
        label: str | None = None,
        injected: Callable[[Any], bool] = lambda annotation: False,
        retry: RetryPolicy | None = None,
        timeout: float | Unsaid | None = UNSAID,
        processors: int | Unsaid = UNSAID,
        executor: str | None = None,
        probe: Callable[..., Any] | None = None,
        chunk_retry: RetryPolicy = CHUNK_RETRY,
        max_waiting: int | None = None,
        principal_expiry: str = Expiry.RUN,
        limit: int | None = None,
        limit_key: str | None = None,
        rate: Rate | None = None,
        age: float | None = None,
    ) -> Phase:
        """Add a phase to a kind (the only one, without a ``label``); config mistakes surface here, at definition."""
        if not callable(handler):
            raise ConfigError("handler", handler, "a function; with options write @app.job(name=...)")
        name = kind if label is None else f"{kind}:{label}"
        if not is_name(kind):
            raise ConfigError("kind", kind, NAME_RULE)
        if not is_name(name) or label == "":
            raise ConfigError("phase", name, NAME_RULE)
        if name in self._phases:
            raise self._taken("phase", name, self._phases[name], "phase")
        if not label and kind in self._kinds:
            raise self._taken("kind", kind, self._kinds[kind].first, "kind")
        if label and (taken := self._kinds.get(kind)) is not None and taken.phases[0].name == kind:
            raise self._taken("pipeline", kind, taken.first, "kind")
        if timeout is not None and timeout is not UNSAID and not (is_number(timeout, 0, LONGEST) and timeout):
            raise ConfigError(
                "timeout", timeout, f"a number of seconds above 0, up to {LONGEST:,}, or None for no limit"
            )
        if max_waiting is not None and not (is_whole(max_waiting, 1) and label):
            raise ConfigError(
                "max_waiting", max_waiting, "a whole number of 1 or more, for a phase of a pipeline"
            )
        if processors is not UNSAID:
            PROCESSOR_RANGE.check("processors", processors)
        for option, policy in (("retry", retry), ("chunk_retry", chunk_retry)):
            if policy is not None and not (hasattr(policy, "attempts") and hasattr(policy, "delay")):
                raise ConfigError(option, policy, "a policy, for example windlass.fixed(attempts=3, wait=1)")
        if principal_expiry not in tuple(Expiry):
            raise ConfigError("principal_expiry", principal_expiry, "run, fail or recheck")
        flow = rates.checked(
            Flow(phase=name, limit=limit, limit_key=limit_key, rate=rate, age=as_duration(age))
        )
        if executor == Where.THREAD:
            handler = marked_sync(handler)
        if self.around is not None:
            handler, probe = self.around(handler), self.around(probe) if probe is not None else None
        where = _where(handler, executor)
        if where is Where.PROCESS and (why := why_not_importable(handler)) is not None:
            raise ConfigError("executor", executor, f"a handler that another process can find: {why}")
        if is_generator(handler):
            raise ConfigError(
                "handler",
                place_of(handler),
                because="a generator function does nothing when it is called; return a list, or write ctx.chunks(...) for slices",
            )
        owner = self._kinds.get(kind) or Kind(kind, registry=self)
        signature = Signature.of(handler, injected=injected)
        rates.check_path(limit_key, signature.parameters)
        supplied = {key: item for key, item in signature.injected.items() if item is not _context()}
        phase = Phase(
            name=name,
            label=label or kind,
            kind=kind,
            handler=handler,
            signature=signature,
            supplied=supplied,
            retry=retry or self._defaults.retry,
            where=where,
            own_timeout=timeout,
            own_processors=processors,
            defaults=self._defaults,
            probe=probe,
            chunk_retry=chunk_retry,
            max_waiting=max_waiting,
            principal_expiry=Expiry(principal_expiry),
            flow=flow,
            _owner=owner,
        )
        owner.phases.append(phase)
        if flow.limit is not None or flow.rate is not None:
            owner.limited.append(phase)
        self._kinds[kind] = owner
        self._phases[name] = phase
        self.store_defaults([kind])
        return phase

    def store_defaults(self, kinds: Iterable[str]) -> None:
        """Have jobs of these kinds stored with the defaults that rules read: a rule sees what is stored, not what a handler is called
        with."""
        for kind in kinds:
            if (known := self._kinds.get(kind)) is not None:
                signature = known.first.signature
                signature.store_defaults(self.rules.parameters_read(kind, signature.parameters))

    def _taken(self, what: str, name: str, first: Phase, each: str) -> ConfigError:
        where = place_of(first.handler)
        return ConfigError(
            what, name, f"a name that is not taken: {where} has it; each {each} is defined once"
        )

    def schedule(self, schedule: CodeSchedule) -> None:
        """Add a schedule; it is put into the database by a worker that starts."""
        self.refuse_taken(schedule.schedule.name)
        self._schedules[schedule.schedule.name] = schedule

    def refuse_taken(self, name: str) -> None:
        """Refuse the name of a schedule that there is already."""
        if name in self._schedules:
            raise ConfigError("name", name, "a name that no other schedule has; give one with name=")

    @property
    def schedules(self) -> list[CodeSchedule]:
        """The schedules that this code defines."""
        return list(self._schedules.values())

    @property
    def modules(self) -> set[str]:
        """The modules that this registry's handlers are in."""
        return {module_of(phase.handler) for phase in self._phases.values()}

    def kind(self, name: str) -> Kind | None:
        return self._kinds.get(name)

    def unknown(self, kind: str) -> ConfigError:
        """The error for the name of a kind that is not defined here."""
        known = sorted(self._kinds)
        near = did_you_mean(kind, known)
        return ConfigError(
            "kind", kind, f"one of the kinds that are defined: {', '.join(known) or 'none'}{near}"
        )

    def phase(self, name: str) -> Phase | None:
        return self._phases.get(name)

    @property
    def phases(self) -> Mapping[str, Phase]:
        """All phases, first phases of pipelines before second ones."""
        depth = {
            phase.name: place for kind in self._kinds.values() for place, phase in enumerate(kind.phases)
        }
        return {name: self._phases[name] for name in sorted(self._phases, key=lambda name: depth[name])}

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def __len__(self) -> int:
        return len(self._kinds)


OPTIONS = frozenset(
    name
    for name, parameter in inspect.signature(Registry.define).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY and name not in ("label", "injected")
)
"""The options of a phase beside its name and its handler."""


def check_options(options: Iterable[str]) -> None:
    """Refuse an option that no phase has, with the one that was probably meant."""
    check_names("option", options, OPTIONS)


def _where(handler: Callable[..., Any], executor: str | None) -> Where:
    if executor is None:
        return Where.LOOP if is_async(handler) else Where.THREAD
    if executor not in (Where.THREAD, Where.PROCESS):
        raise ConfigError(
            "executor", executor, "thread or process; async handlers run on the event loop by themselves"
        )
    if is_async(handler) and executor == Where.THREAD:
        raise ConfigError("executor", executor, "None or process for an async handler")
    return Where(executor)


def _context() -> Any:
    """The type ``Context``, which the engine itself supplies; imported late, because a context refers to its phase."""
    from windlass.handlers.context import Context

    return Context
