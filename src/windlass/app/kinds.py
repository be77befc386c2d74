"""Kinds of work as the application uses them: handlers that can be called as before, and enqueued."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

import typing_extensions  # defaults of type parameters are typing's own from 3.13 on

from windlass.app.submittable import OwningApp, Submittable
from windlass.arguments.asyncness import place_of
from windlass.errors import ConfigError
from windlass.handlers.context import Context
from windlass.handlers.registry import Kind, Phase
from windlass.submit.options import check_definition

P = ParamSpec("P")
R = TypeVar("R")
C = typing_extensions.ParamSpec("C", default=...)
V = typing_extensions.TypeVar("V", default=Any)


class JobKind(Submittable[P, R], Generic[P, R, C, V]):
    """A handler that can be called as before, and enqueued.

    ``P`` are the parameters of ``enqueue`` and ``R`` is the result; ``C`` are the parameters of a plain call (with the context, where it
    stands first) and ``V`` is what the call returns: the result, or a coroutine of it.
    """

    def __init__(
        self,
        app: OwningApp,
        handler: Callable[C, V],
        phase: Phase,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        functools.update_wrapper(
            self, handler
        )  # first: the attributes of a handler that is a kind itself are another app's
        super().__init__(app, options)
        self._handler = handler
        self.windlass_phase = phase
        self.__dict__.pop("_first", None)  # a cached one of another app
        self.windlass_wrap = app.container.wrap
        self.windlass_authority = app.authority
        self.windlass_use_database = app.use_database

    @property
    def name(self) -> str:
        """The name of the kind."""
        return self.windlass_phase.kind

    @property
    def windlass_kind(self) -> Kind | None:
        """The kind with all its phases; ``ctx.parents`` reads results by it."""
        return self.windlass_phase.owner

    @cached_property
    def _first(self) -> Phase:
        return self.windlass_phase

    def _with(self, options: Mapping[str, Any]) -> Self:
        return type(self)(self._app, self._handler, self.windlass_phase, options)

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> V:
        return self._handler(*args, **kwargs)


class JobDecorator(Protocol):
    """Makes a handler a kind; the parameters of ``enqueue`` are those of the handler, without a context that stands first."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> JobKind[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(
        self, handler: Callable[P, Coroutine[Any, Any, R]], /
    ) -> JobKind[P, R, P, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context, P], R], /
    ) -> JobKind[P, R, Concatenate[Context, P], R]: ...

    @overload
    def __call__(self, handler: Callable[P, R], /) -> JobKind[P, R, P, R]: ...


class Pipeline(Submittable[..., Any]):
    """A kind of several phases; a job goes through them in the order they were defined.

    ``pipeline.enqueue`` takes the arguments of the first phase, and no type checker checks them; the first phase's own ``enqueue`` is typed.
    """

    def __init__(
        self,
        app: OwningApp,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        title: str | None = None,
    ) -> None:
        super().__init__(app, options)
        self.name = name
        self._title = title

    @property
    def windlass_kind(self) -> Kind | None:
        """The kind with all its phases; ``ctx.parents`` reads results by it."""
        return self._first.owner

    def phase(self, label: str, **options: Any) -> PhaseDecorator:
        """Define the next phase."""
        if callable(label):
            raise ConfigError("phase", place_of(label), because='give it a name: @pipeline.phase("fetch")')
        check_definition(options)

        def define(handler: Callable[..., Any]) -> Any:
            phase = self._app.registry.define(
                self.name,
                handler,
                label=label,
                injected=self._app.is_injected,
                title=self._title if self._app.registry.kind(self.name) is None else None,
                **options,
            )
            return PipelinePhase(self._app, handler, phase)

        return define

    @cached_property
    def _first(self) -> Phase:
        kind = self._app.registry.kind(self.name)
        if kind is None:
            raise ConfigError(
                "pipeline", self.name, "a pipeline with at least one phase; define one with @pipeline.phase"
            )
        return kind.first

    def _with(self, options: Mapping[str, Any]) -> Self:
        return type(self)(self._app, self.name, options, title=self._title)


class PipelinePhase(JobKind[P, Any, C, V]):
    """A phase's handler; it can be called as before. A job of the pipeline is submitted through the first phase, with its parameters."""

    @cached_property
    def _first(self) -> Phase:
        phase = self.windlass_phase
        kind = self._app.registry.kind(phase.kind)
        if kind is not None and kind.first is not phase:
            raise ConfigError(
                "phase", phase.label, f"{kind.first.label!r}: a job of {phase.kind} begins in its first phase"
            )
        return phase


class PhaseDecorator(Protocol):
    """Makes a handler a phase; the parameters of ``enqueue`` are those of the handler, without a context that stands first."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context, P], V], /
    ) -> PipelinePhase[P, Concatenate[Context, P], V]: ...

    @overload
    def __call__(self, handler: Callable[P, V], /) -> PipelinePhase[P, P, V]: ...
