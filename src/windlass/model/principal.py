"""A principal: verified claims that are stored with a job, and what they allow.

A principal is made where an identity was verified (principals/jwt.py does it for JWTs), captured when a job is enqueued, and read by
the handler. It is a value: nothing about it can be changed, and what is derived from it (``narrowed``, ``meet``) never allows more.

    user = Principal("u-7", tenant="acme", roles={"reports.read"}, attributes={"county": ["Harju", "Tartu"]})
    welcome.enqueue(7, principal=user)

    def report(ctx: Context) -> None:
        ctx.require("reports.read")
        rows = query("… WHERE county = ANY(%s)", [ctx.principal.allowed_values("county")])

An attribute that a principal does not have allows no value at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn

from windlass.arguments.limits import Limits
from windlass.errors import ConfigError, NotAllowedError, PayloadError

Scalar = str | int | float | bool
"""The types of an attribute's value; an attribute has one value or several."""


class Expiry(StrEnum):
    """The policy for a job whose principal has expired when it runs: it runs with the claims as they were captured, it fails, or
    the application's check is called, at every attempt of every phase."""

    RUN = "run"
    FAIL = "fail"
    RECHECK = "recheck"


ACT_FOR_OTHERS: Final = "windlass:act-for-others"
"""The role of services whose jobs may enqueue jobs for any principal: a schedule that dispatches one job per person, say."""

LIMITS: Final = Limits(max_bytes=16 * 1024, max_depth=4)
MAX_TEXT, MAX_ROLES, MAX_ATTRIBUTES, MAX_VALUES = 255, 500, 100, 1000


class Attributes(dict[str, Any]):
    """A mapping that cannot be changed: a dict, so that it prints, compares and is written as one."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a principal cannot be changed; make a smaller one with narrowed()")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)


@dataclass(frozen=True, slots=True)
class Principal:
    """The person or service that asked for a job, as verified at that time.

    ``subject`` is the person or service, unique with its ``issuer`` and ``tenant``. ``expires_at`` is when the claims cease to hold;
    what happens to a job that runs later is its kind's ``principal_expiry``. ``is_service`` says that it is not a person.
    """

    subject: str
    tenant: str | None = field(default=None, kw_only=True)
    roles: AbstractSet[str] = field(default=frozenset(), kw_only=True)
    attributes: Mapping[str, Any] = field(default_factory=Attributes, kw_only=True, hash=False)
    issuer: str | None = field(default=None, kw_only=True)
    expires_at: datetime | None = field(default=None, kw_only=True)
    token_id: str | None = field(default=None, kw_only=True)
    is_service: bool = field(default=False, kw_only=True)
    _stored: str | None = field(default=None, init=False, repr=False, compare=False)
    """What ``to_json`` made: a server stores many jobs of one principal."""

    def __post_init__(self) -> None:
        _text("subject", self.subject)
        for name in ("tenant", "issuer", "token_id"):
            if (value := getattr(self, name)) is not None:
                _text(name, value)
        if not isinstance(self.is_service, bool):
            raise ConfigError("principal.is_service", type(self.is_service).__name__, "True or False")
        put = object.__setattr__
        put(self, "roles", _roles(self.roles))
        put(self, "attributes", _attributes(self.attributes))
        put(self, "expires_at", _moment(self.expires_at))

    @classmethod
    def service(
        cls,
        name: str,
        *,
        roles: Iterable[str] = (),
        tenant: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Principal:
        """A principal for work that no person asked for, such as a schedule's. It does not expire."""
        return cls(name, tenant=tenant, roles=frozenset(_several("roles", roles)), attributes=attributes or {}, issuer="windlass",
                   is_service=True)  # fmt: skip

    # ------------------------------------------------------------------ what it allows

    def has(self, role: str) -> bool:
        """Whether it has a role."""
        return role in self.roles

    def require(self, *roles: str) -> None:
        """Raise ``NotAllowedError`` unless it has all of these roles. In a handler that ends the job, without another attempt."""
        missing = sorted(role for role in roles if role not in self.roles)
        if missing:
            raise NotAllowedError(
                f"{self.subject!r} lacks the role {', '.join(missing)}; ask for it, then enqueue the job anew",
                subject=self.subject,
                missing=missing,
            )

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as it was claimed: one value, or a tuple of them."""
        return self.attributes.get(name, default)

    def allowed_values(self, name: str) -> list[Any]:
        """The values of an attribute, to filter data by; none where the principal does not have the attribute.

        >>> user = Principal("u-7", attributes={"county": ["Harju", "Tartu"]})
        >>> user.allowed_values("county"), user.allowed_values("unit")
        (['Harju', 'Tartu'], [])
        """
        return list(_values(self.attributes.get(name, ())))

    def allows(self, **facts: Any) -> bool:
        """Whether every one of these attributes has the value given; for data that is filtered in Python.

        >>> Principal("u-7", attributes={"county": "Harju"}).allows(county="Tartu")
        False
        """
        return all(_key(value) in map(_key, self.allowed_values(name)) for name, value in facts.items())

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now

    # ------------------------------------------------------------------ smaller ones

    def narrowed(
        self,
        *,
        roles: Iterable[str] | None = None,
        attributes: Mapping[str, Any] | None = None,
        expires_at: datetime | None = None,
    ) -> Principal:
        """The same principal with at most these roles, at most these values of the attributes named, and for no longer than given.

        What it does not have is not added: this can only shrink.
        """
        kept = dict(self.attributes)
        for name, most in _attributes(attributes or {}).items():
            if name in kept:
                kept[name] = _common(kept[name], most)
        return replace(
            self,
            roles=self.roles if roles is None else self.roles & frozenset(_several("roles", roles)),
            attributes={name: value for name, value in kept.items() if value != ()},
            expires_at=_earlier(self.expires_at, _moment(expires_at)),
        )

    def is_same_as(self, other: Principal) -> bool:
        """Whether both are the same person or service; their rights may differ."""
        return self._identity == other._identity

    def is_within(self, other: Principal) -> bool:
        """Whether this is the same principal as ``other``, with no more rights, and for no longer."""
        if not self.is_same_as(other) or not self.roles <= other.roles:
            return False
        if other.expires_at is not None and (self.expires_at is None or self.expires_at > other.expires_at):
            return False
        return all(
            {_key(value) for value in _values(held)}
            <= {_key(value) for value in _values(other.attributes.get(name, ()))}
            for name, held in self.attributes.items()
        )

    def meet(self, other: Principal) -> Principal:
        """A principal with the rights that both have: that of a job that comes from two jobs. Of two different principals it is ``NOBODY``, which allows nothing."""
        if not self.is_same_as(other):
            return NOBODY
        shared = {
            name: _common(value, other.attributes[name])
            for name, value in self.attributes.items()
            if name in other.attributes
        }
        return replace(
            self,
            roles=self.roles & other.roles,
            attributes={name: value for name, value in shared.items() if value != ()},
            expires_at=_earlier(self.expires_at, other.expires_at),
            token_id=self.token_id if self.token_id == other.token_id else None,
        )

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.subject, self.tenant, self.issuer, self.is_service

    # ------------------------------------------------------------------ stored

    def to_json(self) -> str:
        """As JSON text, at most 16 KiB; what is not set is left out."""
        if self._stored is None:
            object.__setattr__(self, "_stored", self._written())
        assert self._stored is not None
        return self._stored

    def _written(self) -> str:
        facts: dict[str, Any] = {"subject": self.subject}
        for name in ("tenant", "issuer", "token_id"):
            if (value := getattr(self, name)) is not None:
                facts[name] = value
        if self.roles:
            facts["roles"] = sorted(self.roles)
        if self.attributes:
            facts["attributes"] = {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in self.attributes.items()
            }
        if self.expires_at is not None:
            facts["expires_at"] = self.expires_at.isoformat()
        if self.is_service:
            facts["is_service"] = True
        from windlass.arguments.encoding import encode  # late: it loads pydantic

        return encode(facts, what="principal", limits=LIMITS)

    @classmethod
    def from_json(cls, text: str | bytes) -> Principal:
        """Read what ``to_json`` wrote; anything else is refused, also what a later release may have added: it may take rights away."""
        from windlass.arguments.encoding import decode  # late: it loads pydantic

        facts = decode(text, what="principal", limits=LIMITS)
        known = {item.name for item in fields(cls) if item.init}
        if not isinstance(facts, dict) or "subject" not in facts or facts.keys() - known:
            raise PayloadError(
                "principal",
                "principal",
                "is not what this release writes",
                "run it with the release that did",
            )
        try:
            if (at := facts.get("expires_at")) is not None:
                facts["expires_at"] = datetime.fromisoformat(at)
            return cls(facts.pop("subject"), **facts)
        except (ConfigError, TypeError, ValueError) as error:
            raise PayloadError(
                "principal", "principal", "holds what no principal can", "capture it anew"
            ) from error

    def __repr__(self) -> str:
        """Short on purpose: attributes are personal data, and this ends up in logs."""
        where = f" of {self.tenant!r}" if self.tenant else ""
        return f"<Principal {self.subject!r}{where}, {len(self.roles)} roles>"


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT or not value.isprintable():
        shown = value[:20] if isinstance(value, str) else type(value).__name__
        raise ConfigError(f"principal.{name}", shown, f"1 to {MAX_TEXT} printable characters")
    return value


def _several(name: str, value: Iterable[Any]) -> list[Any]:
    """The items of an iterable; a text is one too, and never what was meant."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(f"principal.{name}", type(value).__name__, "a set or list of texts")
    return list(value)


def _roles(value: Iterable[str]) -> frozenset[str]:
    roles = frozenset(_text("roles", role) for role in _several("roles", value))
    if len(roles) > MAX_ROLES:
        raise ConfigError("principal.roles", f"{len(roles)} of them", f"at most {MAX_ROLES}")
    return roles


def _attributes(value: object) -> Attributes:
    if not isinstance(value, Mapping) or len(value) > MAX_ATTRIBUTES:
        raise ConfigError(
            "principal.attributes", type(value).__name__, f"a mapping of at most {MAX_ATTRIBUTES} names"
        )
    return Attributes({_text("attributes", name): _attribute(name, held) for name, held in value.items()})


def _attribute(name: str, value: object) -> Scalar | tuple[Scalar, ...]:
    if isinstance(value, list | tuple | set | frozenset):
        held = sorted(value, key=repr) if isinstance(value, set | frozenset) else list(value)
        if len(held) <= MAX_VALUES:
            return tuple({_key(item): _scalar(name, item) for item in held}.values())
        raise ConfigError(
            f"principal.attributes.{name}",
            f"{len(held)} values",
            f"at most {MAX_VALUES}; keep them in a table",
        )
    return _scalar(name, value)


def _scalar(name: str, value: object) -> Scalar:
    is_text = isinstance(value, str) and len(value) <= MAX_TEXT and "\x00" not in value
    is_number = isinstance(value, int | float) and math.isfinite(value) and abs(value) < 2**63
    if not is_text and not is_number:
        raise ConfigError(
            f"principal.attributes.{name}",
            type(value).__name__,
            "a text, number or boolean, or a list of these",
        )
    return value  # type: ignore[return-value]


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise ConfigError("principal.expires_at", value, "a datetime with a time zone, or None")
    return value.astimezone(UTC)


def _values(held: Any) -> tuple[Any, ...]:
    return held if isinstance(held, tuple) else (held,)


def _key(value: Any) -> tuple[str, Any]:
    """A value that equals only itself: to Python, True is 1."""
    try:
        hash(value)
    except TypeError:
        return "?", repr(value)
    return type(value).__name__, value


def _common(held: Any, most: Any) -> Any:
    """The values that two attributes have in common; the empty tuple for none."""
    allowed = {_key(value) for value in _values(most)}
    kept = tuple(value for value in _values(held) if _key(value) in allowed)
    return kept if isinstance(held, tuple) or not kept else kept[0]


def _earlier(first: datetime | None, second: datetime | None) -> datetime | None:
    return min((item for item in (first, second) if item is not None), default=None)


NOBODY: Final = Principal("nobody", issuer="windlass", is_service=True)
"""Allows nothing; the principal of a job that comes from jobs of different principals."""


class Sealed(NamedTuple):
    """A token that only the right key, job and tenant open."""

    key_id: str
    text: str
