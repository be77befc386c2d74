"""Supplies handlers with values besides their arguments: named by type, made by factories, closed when they are no longer needed.

    app.provide(Mailer, make_mailer)                        # once per process
    app.provide(Session, open_session, scope="job")         # once per attempt, closed at its end

    @app.job
    async def welcome(user_id: int, mailer: Mailer) -> str: ...

A factory is a function, a generator that yields once (what follows is the clean-up), or the async form of either; its own parameters are
supplied the same way. Async factories serve async handlers only. A parameter whose type pydantic cannot validate is taken to be supplied; that
it really can be is checked when a worker starts, for all handlers at once.
"""

from __future__ import annotations

import functools
import inspect
import threading
import typing
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from windlass import forking
from windlass.arguments.asyncness import is_async
from windlass.errors import ConfigError


class Scope(StrEnum):
    """How long something lives: as long as the process, or as one attempt."""

    INSTANCE = "instance"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Provider:
    """How one type is made."""

    wanted: Any
    factory: Callable[..., Any]
    scope: Scope
    needs: Mapping[str, Any]
    is_async: bool
    is_generator: bool


class Container:
    """Providers by type. Safe to share between threads; what lives as long as the process is made once."""

    def __init__(self) -> None:
        self._providers: dict[Any, Provider] = {}
        self._made: dict[Any, Any] = {}
        self._lock = threading.RLock()
        self._stack = ExitStack()
        forking.watch(self)

    def after_fork_in_child(self) -> None:
        """Have made nothing: objects that live as long as the process (pools, sessions) are the parent's, and are not closed here. A thread
        of the parent may hold the lock."""
        forking.abandon(self._made)
        forking.abandon(self._stack)
        self._made, self._stack, self._lock = {}, ExitStack(), threading.RLock()

    def provide(
        self,
        wanted: Any,
        factory: Callable[..., Any] | None = None,
        *,
        value: Any = None,
        scope: str = Scope.INSTANCE,
    ) -> None:
        """Say how a type is made; a later call replaces an earlier one, which is how tests put doubles in."""
        if factory is None:
            if value is None:
                raise ConfigError("factory", None, f"a function that makes a {_name(wanted)}, or value=")
            given = value
            factory = lambda: given  # noqa: E731  a value is a factory that has it
        if not callable(factory):
            raise ConfigError("factory", factory, f"a function that makes a {_name(wanted)}")
        if scope not in tuple(Scope):
            raise ConfigError("scope", scope, "instance or job")
        makes_async = is_async(factory) or inspect.isasyncgenfunction(factory)
        if makes_async and scope == Scope.INSTANCE:
            raise ConfigError(
                "scope", scope, "job, for an async factory: it belongs to the event loop of one attempt"
            )
        provider = Provider(
            wanted,
            factory,
            Scope(scope),
            _needs(factory),
            makes_async,
            inspect.isgeneratorfunction(factory) or inspect.isasyncgenfunction(factory),
        )
        with self._lock:
            self._providers[wanted] = provider
            self._made.pop(wanted, None)

    def copy(self) -> Container:
        """A container with the same providers that has made nothing yet."""
        other = Container()
        other._providers = dict(self._providers)
        return other

    def knows(self, wanted: Any) -> bool:
        return wanted in self._providers

    def missing(self, wanted: Mapping[str, Any], *, for_async: bool, seen: tuple[Any, ...] = ()) -> list[str]:
        """Why these parameters cannot be supplied; empty when they can."""
        problems = []
        for name, annotation in wanted.items():
            provider = self._providers.get(annotation)
            if provider is None:
                problems.append(
                    f"{name}: {_name(annotation)} is not provided; call app.provide({_name(annotation)}, factory)"
                )
            elif provider.is_async and not for_async:
                problems.append(
                    f"{name}: {_name(annotation)} is made by an async factory, and the handler is a plain function"
                )
            elif annotation in seen:
                problems.append(
                    f"{name}: {' → '.join(_name(item) for item in (*seen, annotation))} needs itself"
                )
            else:
                problems += [f"{name}: {text}" for text in self._too_short(provider)]
                problems += self.missing(provider.needs, for_async=for_async, seen=(*seen, annotation))
        return problems

    def _too_short(self, provider: Provider) -> list[str]:
        """The needs of a provider with the process's scope that have one attempt's scope: it would keep the first
        value for all later jobs, be it a closed session or another job's principal."""
        if provider.scope is not Scope.INSTANCE:
            return []
        return [
            f"{_name(provider.wanted)} lives as long as the process and cannot need {_name(item)}, which lives as long as one attempt; "
            f'app.provide({_name(provider.wanted)}, factory, scope="job")'
            for item in provider.needs.values()
            if item in self._providers and self._providers[item].scope is Scope.JOB
        ]

    # ------------------------------------------------------------------ making

    def wrap(self, handler: Callable[..., Any], wanted: Mapping[str, Any]) -> Callable[..., Any]:
        """The handler with these parameters supplied, and cleaned up after each call; what the caller gives itself stays."""
        if not wanted:
            return handler
        if is_async(handler):

            @functools.wraps(handler)
            async def supplied_async(**arguments: Any) -> Any:
                raised: BaseException | None = None
                async with AsyncExitStack[bool]() as stack:
                    made: dict[Any, Any] = {}
                    try:
                        for name, annotation in wanted.items():
                            if name not in arguments:
                                arguments[name] = await self._make_async(annotation, stack, made)
                        return await handler(**arguments)
                    except BaseException as error:
                        raised = error
                        raise
                assert raised is not None
                raise raised  # a clean-up that caught it cannot make a failed job a completed one

            return supplied_async

        @functools.wraps(handler)
        def supplied(**arguments: Any) -> Any:
            raised: BaseException | None = None
            with ExitStack[bool]() as stack:
                made: dict[Any, Any] = {}
                try:
                    for name, annotation in wanted.items():
                        if name not in arguments:
                            arguments[name] = self._make(annotation, stack, made)
                    return handler(**arguments)
                except BaseException as error:
                    raised = error
                    raise
            assert raised is not None
            raise raised  # as above

        return supplied

    def _provider(self, annotation: Any) -> Provider:
        provider = self._providers.get(annotation)
        if provider is None:
            raise ConfigError(
                "dependency",
                _name(annotation),
                f"a type that is provided: app.provide({_name(annotation)}, factory)",
            )
        return provider

    def _make(self, annotation: Any, stack: ExitStack, made: dict[Any, Any]) -> Any:
        if annotation in made:
            return made[annotation]
        provider = self._provider(annotation)
        if provider.is_async:
            raise ConfigError(
                "dependency", _name(annotation), because="its factory is async, and the handler is plain"
            )
        if provider.scope is Scope.INSTANCE:
            return self._shared(provider)
        needs = {name: self._make(item, stack, made) for name, item in provider.needs.items()}
        made[annotation] = value = _enter(provider, needs, stack)
        return value

    def _shared(self, provider: Provider) -> Any:
        with self._lock:
            if provider.wanted not in self._made:
                if problems := self._too_short(provider):
                    raise ConfigError("dependency", _name(provider.wanted), because="; ".join(problems))
                needs = {name: self._make(item, self._stack, {}) for name, item in provider.needs.items()}
                self._made[provider.wanted] = _enter(provider, needs, self._stack)
            return self._made[provider.wanted]

    async def _make_async(self, annotation: Any, stack: AsyncExitStack, made: dict[Any, Any]) -> Any:
        if annotation in made:
            return made[annotation]
        provider = self._provider(annotation)
        if provider.scope is Scope.INSTANCE:
            return self._shared(provider)
        needs = {name: await self._make_async(item, stack, made) for name, item in provider.needs.items()}
        if not provider.is_async:
            value = _enter(provider, needs, stack)
        elif provider.is_generator:
            value = await stack.enter_async_context(asynccontextmanager(provider.factory)(**needs))
        else:
            value = await provider.factory(**needs)
        made[annotation] = value
        return value

    def close(self) -> None:
        """Clean up what lived as long as the process, last made first."""
        with self._lock:
            self._made.clear()
            stack, self._stack = self._stack, ExitStack()
        stack.close()


def is_supplied(annotation: Any) -> bool:
    """Whether a parameter's type is none that could be stored: an ordinary class, which the application has to provide."""
    if not inspect.isclass(annotation) or typing.get_origin(annotation) is not None:
        return False
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError
    from pydantic_core import SchemaError

    try:
        return not TypeAdapter(annotation).pydantic_complete
    except (PydanticUserError, SchemaError):
        return True


def _enter(provider: Provider, needs: Mapping[str, Any], stack: Any) -> Any:
    if provider.is_generator:
        return stack.enter_context(contextmanager(provider.factory)(**needs))
    return provider.factory(**needs)


def _needs(factory: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a factory that are to be supplied: those without a default."""
    if inspect.isclass(factory):
        function: Any = factory.__init__
        skipped = 1
    else:
        function, skipped = factory, 0
    try:
        parameters = list(inspect.signature(function).parameters.values())[skipped:]
    except (TypeError, ValueError):
        return {}
    try:
        hints = typing.get_type_hints(function)
    except (TypeError, NameError):  # they mean nothing here; a parameter that needs one is named below
        hints = {}
    needed = {}
    for parameter in parameters:
        if (
            parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            or parameter.default is not parameter.empty
        ):
            continue
        if parameter.name not in hints:
            raise ConfigError(
                f"a parameter of {_name(factory)}",
                parameter.name,
                "annotated with a type that is known where it is defined, so that it can be supplied",
            )
        needed[parameter.name] = hints[parameter.name]
    return needed


def _name(thing: Any) -> str:
    return getattr(thing, "__name__", None) or str(thing)
