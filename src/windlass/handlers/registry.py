"""Kinds of work and the registry that knows them: handler, phases, options.

A kind is a list of phases; a plain job is a pipeline of one. The registry is what an engine is given: it never sees the App.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from windlass.arguments.asyncness import is_generator, marked_sync, place_of
from windlass.arguments.importable import module_of, why_not_importable
from windlass.errors import ConfigError, did_you_mean
from windlass.handlers.phase_defaults import UNSAID, Defaults, FixedDefaults, Unsaid
from windlass.handlers.phase_options import Where, check_arguments, check_phase, where_to_run
from windlass.handlers.title import Title
from windlass.model import Advanced, Completed, Flow, JobLimit, Json, Lease, Rate, Route, Run, as_duration
from windlass.model import rate as rates
from windlass.model.principal import Expiry
from windlass.rules.book import RuleBook
from windlass.store.validators import NAME_RULE, is_name

if TYPE_CHECKING:
    from windlass.arguments.signature import Signature
    from windlass.handlers.middleware import Middleware
    from windlass.handlers.submit_hooks import EnqueueRule, SubmitHook
    from windlass.model.retry import RetryPolicy
    from windlass.schedules.code import CodeSchedule


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
    own_total_timeout: float | Unsaid | None = UNSAID
    own_processors: int | Unsaid = UNSAID
    defaults: Defaults = field(default_factory=FixedDefaults, compare=False, repr=False)
    probe: Callable[..., Any] | None = None
    chunk_retry: RetryPolicy | None = None  # None: as configured
    max_waiting: int | None = None  # with so many queued, the phase before is held back
    principal_expiry: Expiry = Expiry.RUN  # the policy for a job whose principal has expired
    flow: Flow | None = None  # what it allows over the whole fleet
    supplied: Mapping[str, Any] = field(
        default_factory=dict
    )  # parameters that are provided by type, besides the context
    submit_hooks: Sequence[SubmitHook] = field(default=(), compare=False, repr=False)
    """Functions that add headers to jobs that are submitted: the registry's list, so that later ones count, too."""
    owner: Kind | None = field(default=None, compare=False, repr=False)

    @property
    def timeout(self) -> float | None:
        """Seconds that an attempt may take without progress; None is no limit."""
        return self.defaults.timeout if self.own_timeout is UNSAID else self.own_timeout

    @property
    def total_timeout(self) -> float | None:
        """Seconds that an attempt may take in all, whatever progress it makes; None is no limit."""
        return self.defaults.total_timeout if self.own_total_timeout is UNSAID else self.own_total_timeout

    @property
    def processors(self) -> int:
        """How many jobs of this phase an instance runs at once, unless its settings say otherwise."""
        return self.defaults.processors if self.own_processors is UNSAID else self.own_processors

    @property
    def is_limited(self) -> bool:
        """Whether this phase or one after it is."""
        return self.owner is not None and bool(self.owner.limited)

    def limits(self, args_json: str, key: str | None = None) -> list[JobLimit]:
        """The limits that are stored with a job of this phase's kind, one for each limited phase."""
        if self.owner is None or not self.owner.limited:
            if key is not None:
                raise ConfigError(
                    "limit_key", key, because=f"{self.kind} has no limit that it could belong to"
                )
            return []
        return self.owner.limits(args_json, key)

    @property
    def route(self) -> Route:
        """All phases of a kind that has several."""
        return self.owner.route if self.owner is not None and len(self.owner.phases) > 1 else ()

    def ended(self, lease: Lease, value: Json | None, run: Run | None = None) -> Completed | Advanced:
        """The outcome of a phase that ended with this value."""
        following = self.following
        if following is None:
            return Completed(lease, value, run, self.route)
        output = Json("null") if value is None else value
        return Advanced(lease, following.name, output, following.retry.attempts, run, self.route)

    def output_json(self, value: Any) -> Json:
        """An output as it is stored, within the limits of results."""
        if isinstance(value, Json):
            return value
        from windlass.arguments.encoding import encode  # late: it loads pydantic

        return Json(encode(value, what="output", limits=self.signature.limits.result))

    @property
    def registry(self) -> Registry | None:
        """The kinds that this phase's kind was defined among; None for a phase without a registry."""
        return self.owner.registry if self.owner is not None else None

    def in_registry(self, registry: Registry) -> Phase | None:
        """This phase as a registry has it, perhaps with other defaults; None if it was defined in another app."""
        if self.registry is registry:
            return self
        is_known = self.registry is not None and self.registry.origin is registry.origin
        return registry.phase(self.name) if is_known else None

    @property
    def following(self) -> Phase | None:
        """The phase after this one; None after the last. Found on each access: later phases are defined later."""
        return self.owner.after(self.name) if self.owner else None


@dataclass(slots=True)
class Kind:
    """A named kind of work: its phases in order."""

    name: str
    phases: list[Phase] = field(default_factory=list)
    limited: list[Phase] = field(default_factory=list)
    registry: Registry | None = field(default=None, compare=False, repr=False)
    title: Title | None = None  # None: the kind and its first arguments

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
        self._followers: list[WeakMethod[Callable[[Phase], None]]] = []
        self.rules = RuleBook()
        self.submit_hooks: list[SubmitHook] = []
        self.middleware: list[Middleware] = []
        self.around: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
        """The wrapper of every handler and probe: a web framework's context, say. Set before kinds are defined."""
        self.enqueue_rule: EnqueueRule | None = None
        """A web framework's rule for jobs that ``ctx.enqueue`` stores at once."""

    def define(
        self,
        kind: str,
        handler: Callable[..., Any],
        *,
        label: str | None = None,
        injected: Callable[[Any], bool] = lambda annotation: False,
        retry: RetryPolicy | None = None,
        timeout: float | Unsaid | None = UNSAID,
        total_timeout: float | Unsaid | None = UNSAID,
        processors: int | Unsaid = UNSAID,
        executor: str | None = None,
        probe: Callable[..., Any] | None = None,
        chunk_retry: RetryPolicy | None = None,
        max_waiting: int | None = None,
        principal_expiry: str = Expiry.RUN,
        limit: int | None = None,
        limit_key: str | None = None,
        rate: Rate | None = None,
        age: float | None = None,
        title: str | None = None,
    ) -> Phase:
        """Add a phase to a kind (the only one, without a ``label``); config mistakes surface here, at definition."""
        from windlass.arguments.signature import Signature  # late: it loads pydantic

        if not callable(handler):
            raise ConfigError("handler", handler, "a function; with options write @app.job(name=...)")
        name = kind if label is None else f"{kind}:{label}"
        if not is_name(kind):
            raise ConfigError("kind", kind, NAME_RULE)
        if not is_name(name) or label == "":
            raise ConfigError("phase", name, NAME_RULE)
        if name in self._phases:
            raise self._taken("phase" if label else "kind", name, self._phases[name])
        if not label and kind in self._kinds:
            raise self._taken("kind", kind, self._kinds[kind].first)
        if label and (taken := self._kinds.get(kind)) is not None and taken.phases[0].name == kind:
            raise self._taken("pipeline", kind, taken.first)
        check_phase(
            label,
            timeout=timeout,
            total_timeout=total_timeout,
            max_waiting=max_waiting,
            processors=processors,
            retry=retry,
            chunk_retry=chunk_retry,
            principal_expiry=principal_expiry,
        )
        flow = rates.checked(
            Flow(phase=name, limit=limit, limit_key=limit_key, rate=rate, age=as_duration(age))
        )
        if executor == Where.THREAD:
            handler = marked_sync(handler)
        if self.around is not None:
            handler, probe = self.around(handler), self.around(probe) if probe is not None else None
        where = where_to_run(handler, executor)
        if where is Where.PROCESS and (why := why_not_importable(handler)) is not None:
            raise ConfigError("executor", executor, f"a handler that another process can find: {why}")
        if is_generator(handler):
            raise ConfigError(
                "handler",
                place_of(handler),
                because="a generator function does nothing when it is called; return a list, or write ctx.chunks(...) for slices",
            )
        owner = self._kinds.get(kind) or Kind(kind, registry=self)
        signature = Signature.of(handler, injected=injected, limits=self._defaults.payload)
        if title is not None:
            owner.title = Title(title, signature.parameters)
        if owner.phases:
            check_arguments(name, signature, owner.first.name, owner.first.signature)
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
            own_total_timeout=total_timeout,
            own_processors=processors,
            defaults=self._defaults,
            probe=probe,
            chunk_retry=chunk_retry,
            max_waiting=max_waiting,
            principal_expiry=Expiry(principal_expiry),
            flow=flow,
            submit_hooks=self.submit_hooks,
            owner=owner,
        )
        self._add(phase, owner)
        self.store_defaults([kind])
        for follower in list(self._followers):
            if (follow := follower()) is not None:
                follow(phase)
        return phase

    def _add(self, phase: Phase, owner: Kind) -> None:
        owner.phases.append(phase)
        if phase.flow is not None and (phase.flow.limit is not None or phase.flow.rate is not None):
            owner.limited.append(phase)
        self._kinds[phase.kind] = owner
        self._phases[phase.name] = phase

    def adopt(self, phase: Phase) -> None:
        """Add a phase that is defined in another registry, with the defaults of this one."""
        owner = self._kinds.get(phase.kind) or Kind(phase.kind, registry=self)
        owner.title = phase.owner.title if phase.owner is not None else None
        is_default = phase.retry is phase.defaults.retry
        adopted = replace(
            phase,
            retry=self._defaults.retry if is_default else phase.retry,
            defaults=self._defaults,
            signature=phase.signature.with_limits(self._defaults.payload),
            owner=owner,
        )
        self._add(adopted, owner)

    @property
    def origin(self) -> Registry:
        """The registry in which the phases are defined: this one, unless it follows another one."""
        return self

    def on_defined(self, follow: Callable[[Phase], None]) -> None:
        """Call the method ``follow`` with every phase, now and when one is defined, for as long as its object lives."""
        for phase in self._phases.values():
            follow(phase)
        method = WeakMethod(follow, self._followers.remove)
        self._followers.append(method)

    def store_defaults(self, kinds: Iterable[str]) -> None:
        """Have jobs of these kinds stored with the defaults that rules read: a rule sees what is stored, not what a handler is called
        with."""
        for kind in kinds:
            if (known := self._kinds.get(kind)) is not None:
                signature = known.first.signature
                signature.store_defaults(self.rules.parameters_read(kind, signature.parameters))

    def _taken(self, what: str, name: str, first: Phase) -> ConfigError:
        cure = ": @app.job(name=...)" if what == "kind" else ""
        where = place_of(first.handler)
        return ConfigError(
            what, name, because=f"{where} has this name already; give one of the two another name{cure}"
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

    def decode_result(self, kind: str, text: str) -> Any:
        """A stored result of a job as its last handler's return type; plain JSON for a kind that is not defined here."""
        known = self._kinds.get(kind)
        return json.loads(text) if known is None else known.phases[-1].signature.decode_result(text)

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
    if parameter.kind is parameter.KEYWORD_ONLY and name not in ("label", "injected", "title")
)
"""The options of a phase beside its name and its handler."""


def _context() -> Any:
    """The type ``Context``, which the engine itself supplies; imported late, because a context refers to its phase."""
    from windlass.handlers.context import Context

    return Context
