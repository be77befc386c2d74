"""The parameters and the result of a handler, read from its annotations.

Enqueue and run are two moments, often in two processes and two releases. A ``Signature`` connects them: on enqueue
it binds and validates the arguments and writes them as JSON by name; at run time it reads them back as the annotated
types, and says which argument no longer fits. Validation is pydantic's lax mode: ``"7"`` is accepted where ``int`` is
annotated, and 7 is stored. Parameters the caller declares as injected are not part of the stored arguments.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, NotRequired

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from windlass.arguments.encoding import decode, encode
from windlass.arguments.injected import Injected
from windlass.arguments.json_checks import Path, TreeInspector, a_type, explain, one_line
from windlass.arguments.limits import LARGEST, PAYLOAD_LIMITS, PayloadLimits
from windlass.arguments.schemas import Schema, args_schema, result_schema
from windlass.arguments.value_checks import AWAITED, node_at
from windlass.errors import ConfigError

if typing.TYPE_CHECKING:
    from pydantic_core import ErrorDetails


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """The stored arguments and the result of one handler; make it with ``Signature.of``.

    >>> def welcome(user_id: int, note: str = "hi") -> str: ...
    >>> Signature.of(welcome).encode_args("7")
    '{"user_id":7}'
    """

    handler: str
    parameters: tuple[str, ...]
    injected: Mapping[str, Any]
    _find_limits: Callable[[], PayloadLimits]
    _positional: tuple[str, ...]
    _typed: frozenset[str]
    _args: Schema
    _result: Schema | None
    _defaults: Mapping[str, Any]
    stored_defaults: dict[str, Any]
    """Defaults that are stored like given arguments; others are left to the handler, so that they may change with it."""
    accepts_none: bool
    """Whether None is a result that fits, so that the usual result of a job need not be checked each time."""
    _limits: PayloadLimits | None = None
    """Found when they are first needed: they may come from a configuration, which is not read at import."""

    @classmethod
    def of(
        cls,
        handler: Callable[..., Any],
        *,
        injected: Callable[[Any], bool] = lambda annotation: False,
        localns: Mapping[str, Any] | None = None,
        limits: Callable[[], PayloadLimits] = lambda: PAYLOAD_LIMITS,
    ) -> Signature:
        """Read a handler's annotations once; ``ConfigError`` when its arguments could not be stored by name.

        ``injected`` says by annotation which parameters are supplied at run time, beside those with the default
        ``injected()``. ``localns`` holds names that string
        annotations may use besides the handler's module, for handlers defined inside a function. ``limits`` is called when a payload
        is first written.
        """
        function = _function_of(handler)
        name = f"{function.__module__}.{function.__qualname__}"
        hints = _hints_of(function, name, localns)
        fields: dict[str, Any] = {}
        supplied: dict[str, Any] = {}
        positional: list[str] = []
        defaults: dict[str, Any] = {}
        for parameter in inspect.signature(handler).parameters.values():
            annotation = hints.get(parameter.name, Any)
            if injected(annotation) or isinstance(parameter.default, Injected):
                supplied[parameter.name] = annotation
                continue
            _check_parameter(parameter, name)
            required = parameter.default is parameter.empty
            fields[parameter.name] = annotation if required else NotRequired[annotation]
            if not required:
                defaults[parameter.name] = parameter.default
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                positional.append(parameter.name)
        result = result_schema(hints.get("return", Any))
        return cls(
            handler=name,
            parameters=tuple(fields),
            injected=supplied,
            _find_limits=limits,
            _positional=tuple(positional),
            _typed=frozenset(key for key in fields if hints.get(key, Any) not in (Any, object)),
            _args=args_schema(name, fields, hints),
            _result=result,
            _defaults=defaults,
            stored_defaults={},
            accepts_none=result is None or hints.get("return") is type(None),
        )

    @property
    def required(self) -> tuple[str, ...]:
        """The stored arguments without a default."""
        return tuple(name for name in self.parameters if name not in self._defaults)

    @property
    def limits(self) -> PayloadLimits:
        """How large and how deep arguments, results and outputs may be."""
        return self._limits or self._found_limits()

    def _found_limits(self) -> PayloadLimits:
        found = self._find_limits()
        object.__setattr__(self, "_limits", found)
        return found

    def with_limits(self, limits: Callable[[], PayloadLimits]) -> Signature:
        """The same signature with other limits."""
        return replace(self, _find_limits=limits, _limits=None)

    @property
    def is_inert(self) -> bool:
        """Whether arguments are validated and written without any code of the application's: no validators, models, or objects of
        unknown types."""
        return self._args.is_inert

    def bind(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Validate a call for enqueue: the given arguments by name, as annotated types; defaults are left out, but for those that are
        stored."""
        if args:
            kwargs = self.by_name(args, kwargs)
        if self.stored_defaults:
            kwargs = {**self.stored_defaults, **kwargs}
        try:
            return self._args.validate(kwargs)  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001  a user's validator may raise anything
            self._refuse("args", kwargs, error)

    def store_defaults(self, names: Iterable[str]) -> None:
        """Store the defaults of these parameters from now on, except defaults that could not be given as arguments (a sentinel, say)."""
        self.stored_defaults.update(
            {
                name: self._defaults[name]
                for name in names
                if name in self._defaults and self._takes_default(name)
            }
        )

    def _takes_default(self, name: str) -> bool:
        value = {name: self._defaults[name]}
        try:
            encode(value, what="default", limits=LARGEST)
            self._args.validate(value)
        except ValidationError as error:  # of others, which are missing here, or of this one
            return all(
                name not in item["loc"][:1] for item in error.errors(include_url=False, include_input=False)
            )
        except Exception:  # noqa: BLE001  a user's validator may raise anything
            return False
        return True

    def encode_args(self, /, *args: Any, **kwargs: Any) -> str:
        """Validate a call and write its arguments as the JSON text to store."""
        bound = self.bind(*args, **kwargs)
        what = f"args of {self.handler}"
        limits = (self._limits or self._found_limits()).args  # no call for the usual job
        return encode(bound, what=what, limits=limits, writer=self._args.writer, typed=self._typed)

    def decode_args(self, text: str | bytes) -> dict[str, Any]:
        """Read stored arguments as the annotated types, ready for ``handler(**arguments)``.

        ``PayloadError`` when they are broken or no longer fit: a parameter renamed, removed, added without a default, or
        given another type since the job was enqueued.
        """
        try:
            return self._args.validate_json(text)  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001  a user's validator may raise anything
            self._refuse("args", self._read_args(text), error, is_stored=True)

    def encode_result(self, value: Any) -> str:
        """Write what the handler returned, validated by its return annotation; by runtime type when it has none."""
        what = f"result of {self.handler}"
        limits = (self._limits or self._found_limits()).result
        if self._result is None:
            return encode(value, what=what, limits=limits)
        try:
            fitted = self._result.validate(value)
        except Exception as error:  # noqa: BLE001  a user's validator may raise anything
            self._refuse("result", value, error)
        return encode(fitted, what=what, limits=limits, writer=self._result.writer, typed=True)

    def decode_result(self, text: str | bytes) -> Any:
        """Read a stored result as the handler's return annotation; ``PayloadError`` if it does not fit that any more."""
        if self._result is None:
            return json.loads(text)
        try:
            return self._result.validate_json(text)
        except Exception as error:  # noqa: BLE001  a user's validator may raise anything
            self._refuse("result", json.loads(text), error, is_stored=True)

    def _read_args(self, text: str | bytes) -> Any:
        # Arguments that were stored stay readable when a limit is lowered.
        return decode(text, what=f"args of {self.handler}", limits=LARGEST, verdict="cannot be read")

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name; ``PayloadError`` for too many, or for one that is given twice."""
        inspector = TreeInspector(f"args of {self.handler}", LARGEST.max_depth)
        if len(args) > len(self._positional):
            takes = ", ".join(self._positional) or "none"
            inspector.refuse(
                (),
                f"has {len(args)} positional arguments",
                f"the handler takes {len(self._positional)}: {takes}",
            )
        named = dict(zip(self._positional, args, strict=False))
        for twice in named.keys() & kwargs.keys():
            inspector.refuse((twice,), "is given twice, by position and by name", "give it once")
        return {**named, **kwargs}

    def _refuse(self, root: str, value: Any, error: Exception, *, is_stored: bool = False) -> NoReturn:
        """Raise ``PayloadError`` for the first field pydantic complains about; never shows the value itself.

        Stored arguments fitted once, or fitted another phase: there the code is to be changed, not the value.
        """
        if is_stored and root == "result":  # the job has completed: nothing is to be run again
            verdict, give_default, deploy = "does not fit the handler's return type as it is now", _FIT, _FIT
        else:
            verdict = "do not fit the handler as it is now" if is_stored else "cannot be stored"
            give_default, deploy = _GIVE_DEFAULT, _DEPLOY
        inspector = TreeInspector(f"{root} of {self.handler}", LARGEST.max_depth, verdict=verdict)
        if not isinstance(error, ValidationError):
            inspector.refuse(
                (), f"could not be validated ({explain(error)})", "correct the validator that raised"
            )
        details = error.errors(include_url=False, include_input=False)
        found = [(_real_path(detail, value), detail) for detail in details]
        # An unknown name before a missing one: together they are a typing mistake.
        path, detail = min(found, key=lambda pair: pair[1]["type"] != "extra_forbidden")
        if detail["type"] == "missing":
            cure = "give it, or give it a default where it is declared"
            inspector.refuse(path, "is missing", give_default if is_stored else cure)
        if detail["type"] == "extra_forbidden" and root == "args" and len(path) == 1:
            self._refuse_unknown(str(path[0]), inspector, is_stored=is_stored)
        given = node_at(value, path)
        if isinstance(given, Awaitable | AsyncIterator):
            inspector.refuse(path, f"is {a_type(given)} that was not awaited", AWAITED)
        messages = dict.fromkeys(one_line(other["msg"]) for where, other in found if where == path)
        problem = f"does not fit its annotation ({' or '.join(messages)})"[:400]
        cure = "change the value, or the annotation if it is wrong"
        inspector.refuse(path, problem, deploy if is_stored else cure)

    def _refuse_unknown(self, name: str, inspector: TreeInspector, *, is_stored: bool) -> NoReturn:
        if name in self.injected:
            cure = _DEPLOY if is_stored else "leave it out"
            inspector.refuse((name,), "is injected when the job runs", cure)
        close = difflib.get_close_matches(name, self.parameters, n=1)
        hint = f"did you mean {close[0]}? " if close and not is_stored else ""
        takes = f"it takes {', '.join(self.parameters) or 'no arguments'}"
        cure = f"{takes}; {_DEPLOY}" if is_stored else f"{hint}{takes}"
        inspector.refuse((name,), "is not a parameter of the handler", cure)


_FIT = (
    "deploy a handler whose return type fits what was stored, or read it as JSON: app.handle(id).job().result"
)
_GIVE_DEFAULT = "give the parameter a default, then retry the job: app.handle(id).retry()"
_DEPLOY = "deploy a handler that takes what was stored, then retry the job: app.handle(id).retry()"


def _function_of(handler: Callable[..., Any]) -> Any:
    """The function that carries the annotations: under partials, decorators, bound methods and callable objects."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    handler = inspect.unwrap(handler)
    if inspect.isroutine(handler) or inspect.isclass(handler):
        return handler
    return type(handler).__call__


def _hints_of(function: Any, name: str, localns: Mapping[str, Any] | None) -> dict[str, Any]:
    try:
        return typing.get_type_hints(
            function, localns=dict(localns) if localns else None, include_extras=True
        )
    except Exception as error:  # an annotation is any expression
        raise ConfigError(
            f"the annotations of {name}",
            explain(error),
            because="each name must be importable when the handler is defined: import it outside `if TYPE_CHECKING`, "
            "define it above the handler, or pass it in localns",
        ) from error


def _check_parameter(parameter: inspect.Parameter, name: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise ConfigError(
            f"a parameter of {name}",
            str(parameter),
            because="arguments are stored and passed by name; use named parameters, or one parameter that is a list or dict",
        )
    if isinstance(parameter.default, FieldInfo):
        raise ConfigError(
            f"a parameter of {name}",
            f"{parameter.name} = Field(...)",
            because=f"write {parameter.name}: Annotated[..., Field(...)], with an ordinary default",
        )


def _real_path(detail: ErrorDetails, value: Any) -> Path:
    """pydantic's location without the names of union members and validators that it mixes in."""
    path: Path = ()
    for step in detail["loc"]:
        try:
            if isinstance(value, Mapping) and step not in value:  # a defaultdict would make it up
                continue
            value = value[step] if hasattr(value, "__getitem__") else getattr(value, str(step))
        except Exception:  # noqa: BLE001, S112  not a part of the value (or a property that raises)
            continue
        path = (*path, step)
    is_about_absent = detail["type"] in ("missing", "extra_forbidden") and len(path) < len(detail["loc"])
    return (*path, detail["loc"][-1]) if is_about_absent else path
