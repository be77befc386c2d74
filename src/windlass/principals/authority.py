"""The principals of jobs and what their jobs may do: captured where a job is enqueued, checked where it runs.

    with app.as_principal(user, token=raw):      # a web layer says it once per request
        report.enqueue(county="Harju")           # every job enqueued inside is the user's

    @app.recheck_principal                       # asked at every attempt of kinds with principal_expiry="recheck"
    def still_allowed(principal: Principal) -> Principal: ...

While a job with a principal runs, what it enqueues has at most its rights, in any code that calls ``enqueue``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from windlass.arguments.asyncness import is_async
from windlass.arguments.json_checks import explain
from windlass.errors import (
    ConfigError,
    NoPrincipalError,
    PrincipalDeniedError,
    PrincipalExpiredError,
    SealError,
)
from windlass.model import Captured
from windlass.model.principal import Expiry, Principal
from windlass.model.signals import Retry
from windlass.principals.sealed_tokens import TokenKeys
from windlass.store.ids import new_id

if TYPE_CHECKING:
    from windlass.handlers.attempt_context import AttemptContext
    from windlass.handlers.registry import Phase

Recheck = Callable[..., Any]
Keys = Callable[[], TokenKeys | None]
ASKING = frozenset({"principal", "token", "keep_token"})
"""Options of ``enqueue`` that set the principal."""

NAMES = frozenset({"key", "debounce", "throttle", "limit_key", "correlation_id", "headers"})
"""Options that are stored as they are given, and so may hold no token."""

current_context: ContextVar[AttemptContext | None] = ContextVar("windlass_current_context", default=None)
"""The context of the job with a principal that this thread or task runs; None outside of such jobs."""


class _Asker(NamedTuple):
    principal: Principal
    token: str | None

    def __repr__(self) -> str:
        return f"<asker {self.principal!r}>"


class Authority:
    """The principals of one application: the current one, the check that jobs must pass, the keys of kept tokens."""

    def __init__(self, keys: Keys = lambda: None, *, like: Authority | None = None) -> None:
        self._keys = keys
        self._like = like
        self._recheck: Recheck | None = None
        # The principal does not depend on the database: a block of the original app counts for one that is bound to another.
        self._asker: ContextVar[_Asker | None] = (
            ContextVar("windlass_asker", default=None) if like is None else like._asker
        )

    @property
    def keys(self) -> TokenKeys | None:
        """The keys of kept tokens; an application that is bound to another database and has none of its own has those of the original."""
        own = self._keys()
        return self._like.keys if own is None and self._like is not None else own

    # ------------------------------------------------------------------ asking

    @contextmanager
    def as_principal(self, principal: Principal, token: str | None = None) -> Iterator[Principal]:
        """Give the jobs that this thread or task enqueues in this block the principal ``principal``."""
        if not isinstance(principal, Principal):
            raise ConfigError("principal", type(principal).__name__, "a Principal")
        if running := current_context.get():
            running.refuse_more(principal)
        was = self._asker.set(_Asker(principal, token))
        try:
            yield principal
        finally:
            try:
                self._asker.reset(was)
            except ValueError:  # of another context
                raise ConfigError(
                    "as_principal",
                    principal.subject,
                    because="its block was entered in one thread or task and left in another, and jobs that were enqueued in between do not "
                    "have the principal. A web framework's plain generator dependency runs like that: use Bearer of "
                    "windlass.integrations.fastapi.bearer, or an async dependency",
                ) from None

    def is_nobody(self, first: Phase) -> bool:
        """Whether there is no principal here and now: no block, no running job; and the kind can do without."""
        return self._asker.get() is None and current_context.get() is None and not _needs_principal(first)

    def capture(self, first: Phase, options: Mapping[str, Any], args: str) -> dict[str, Any]:
        """The fields of a ``NewJob`` that set its principal. What is given comes before the block's principal, and that before
        the running job's."""
        asker, running = self._asker.get(), current_context.get()
        principal = options.get("principal")
        token, keep = options.get("token"), options.get("keep_token", False)
        if principal is None and asker is not None:
            principal = asker.principal
            token = token or asker.token
        if running is not None:
            running.refuse_tokens("args", args)
            for name in NAMES & options.keys():
                running.refuse_tokens(name, options[name])
            principal = running.passed_on(principal)
        if (
            principal is None
            and first.signature.injected
            and not options.get("after")
            and _needs_principal(first)
        ):
            raise NoPrincipalError(f"a job of kind {first.kind}")
        if not keep:
            if options.get("token") is not None:
                raise ConfigError(
                    "token",
                    "***",
                    "given with keep_token=True only: a raw token is not kept unless asked for",
                )
            return {} if principal is None else {"principal": principal}
        return {"principal": principal, **self._sealed(principal, token, options.get("id"))}

    def _sealed(self, principal: Any, token: str | None, job_id: str | None) -> dict[str, Any]:
        keys = self.keys
        if keys is None:
            raise ConfigError("keep_token", True, "used with keys only: set principal.keys")
        if not isinstance(principal, Principal) or not isinstance(token, str):
            raise ConfigError(
                "keep_token",
                True,
                "used with a principal and its token: app.as_principal(principal, token=...)",
            )
        job_id = job_id or new_id()
        return {"id": job_id, "sealed": keys.seal(token, job_id=job_id, tenant=principal.tenant)}

    # ------------------------------------------------------------------ running

    @property
    def recheck(self) -> Recheck | None:
        """The application's own check."""
        return self._recheck or (self._like.recheck if self._like else None)

    def check_with(self, hook: Recheck) -> None:
        """Have this called with the principal (and the context, where it takes a second parameter) before a handler is."""
        if not callable(hook):
            raise ConfigError(
                "recheck_principal", type(hook).__name__, "a function that takes a Principal and returns one"
            )
        self._recheck = hook

    def open_token(self, captured: Captured | None, job_id: str) -> str:
        """The raw token that was kept with a job."""
        if captured is None or captured.sealed is None:
            raise SealError(
                "token_not_kept", f"none was kept with job {job_id}; enqueue it with keep_token=True"
            )
        keys = self.keys
        if keys is None:
            raise SealError(
                "seal_key_missing",
                f"this process has no keys; set principal.keys, which has {captured.sealed.key_id!r}",
            )
        return keys.open(captured.sealed, job_id=job_id, tenant=captured.principal.tenant)

    def admit(self, context: AttemptContext, expiry: Expiry) -> None:
        """Raise unless a job may run for its principal; with ``recheck`` the context then has the principal that the check returned."""
        result = self._ask(context, expiry)
        if result is not None:
            value = result[1]()
            context.accept(
                self._judged(
                    result[0], context, asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value
                )
            )

    async def admit_async(self, context: AttemptContext, expiry: Expiry) -> None:
        """``admit`` without blocking the event loop; an async check runs on it."""
        result = await asyncio.to_thread(self._ask, context, expiry)
        if result is not None:
            captured, ask = result
            value = ask() if is_async(self.recheck) else await asyncio.to_thread(ask)
            context.accept(
                self._judged(captured, context, await value if inspect.isawaitable(value) else value)
            )

    def _ask(self, context: AttemptContext, expiry: Expiry) -> tuple[Captured, Callable[[], Any]] | None:
        """The check to call, if there is one."""
        captured = context.captured
        if captured is None or expiry is Expiry.RUN:
            return None
        if expiry is Expiry.FAIL:
            if captured.is_expired:
                raise PrincipalExpiredError(context.job_id, captured.principal.expires_at)
            return None
        hook = self.recheck
        if hook is None:
            raise PrincipalDeniedError(
                context.job_id, "there is no check to pass; define one with app.recheck_principal"
            )
        wants_context = _takes_context(hook)
        return captured, functools.partial(
            _checked, context, hook, captured.principal, *([context] if wants_context else [])
        )

    def _judged(self, captured: Captured, context: AttemptContext, result: object) -> Principal:
        """The principal that a check returned: never with more rights than was captured, but perhaps for longer."""
        if not isinstance(result, Principal):
            raise PrincipalDeniedError(
                context.job_id, f"the check returned {type(result).__name__} and no Principal"
            )
        if not result.is_same_as(captured.principal):
            raise PrincipalDeniedError(context.job_id, "the check returned another principal")
        if result.is_expired(captured.at):
            raise PrincipalExpiredError(context.job_id, result.expires_at)
        met = captured.principal.meet(result)
        return replace(met, expires_at=result.expires_at, token_id=result.token_id)


def gated(
    handler: Callable[..., Any], phase: Phase, context: AttemptContext, authority: Authority
) -> Callable[..., Any]:
    """The handler of a job with a principal: called if the principal may, with the job's rights around all that it enqueues, and
    with nothing secret left behind."""
    must_check = phase.principal_expiry is not Expiry.RUN or _wants_principal(phase)
    if is_async(handler):

        @functools.wraps(handler)
        async def admitted_async(**arguments: Any) -> Any:
            was = current_context.set(context)
            try:
                if must_check:
                    await authority.admit_async(context, phase.principal_expiry)
                return await handler(**arguments)
            except BaseException as error:
                context.drop_locals(error)
                raise
            finally:
                current_context.reset(was)
                context.forget_tokens()

        return admitted_async

    @functools.wraps(handler)
    def admitted(**arguments: Any) -> Any:
        was = current_context.set(context)
        try:
            if must_check:
                authority.admit(context, phase.principal_expiry)
            return handler(**arguments)
        except BaseException as error:
            context.drop_locals(error)
            raise
        finally:
            current_context.reset(was)
            context.forget_tokens()

    return admitted


def running_principal() -> Principal:
    """The principal of the job that runs here, for handlers that ask for it by type."""
    context = current_context.get()
    if context is None or context.principal is None:
        raise NoPrincipalError("this job")
    return context.principal


def running_principal_or_none() -> Principal | None:
    """The principal of the job that runs here, or None; for handlers that can do without."""
    context = current_context.get()
    return None if context is None else context.principal


def _checked(context: AttemptContext, hook: Recheck, *arguments: Any) -> Any:
    """Call a check; any exception it raises is a refusal, unless it asks for another attempt."""
    try:
        result = hook(*arguments)
    except Retry:
        raise
    except Exception as error:
        raise PrincipalDeniedError(context.job_id, explain(error)) from error
    return _await_check(context, result) if inspect.isawaitable(result) else result


async def _await_check(context: AttemptContext, result: Any) -> Any:
    try:
        return await result
    except Retry:
        raise
    except Exception as error:
        raise PrincipalDeniedError(context.job_id, explain(error)) from error


async def _awaited(result: Any) -> Any:
    return await result


def _takes_context(hook: Recheck) -> bool:
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(item.kind in places and item.default is item.empty for item in parameters) >= 2


def _wants_principal(phase: Phase) -> bool:
    return any(item == Principal or item == (Principal | None) for item in phase.signature.injected.values())


def _needs_principal(phase: Phase) -> bool:
    return any(item is Principal for item in phase.signature.injected.values())
