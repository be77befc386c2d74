"""Checks the Authorization header of a request: a verified principal, or a refusal with what its HTTP response needs.

    check = BearerCheck(verifier, roles=["reports.read"])
    verified = check(request.headers.get("Authorization"))      # or AuthenticationError

Nothing here belongs to a web framework; the adapters in ``windlass.integrations`` all call this. The statuses and the challenge follow
RFC 6750. No refusal contains the token, or a part of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from windlass.errors import AuthenticationError, ConfigError, TokenError
from windlass.model.principal import Principal
from windlass.principals.verification_keys import AGAIN

MISSING, NOT_ALLOWED = "token_missing", "not_allowed"

_BEARER = re.compile(r"bearer(?: +(?P<token>[A-Za-z0-9._~+/-]+=*))? *", re.IGNORECASE)
_SCHEME = re.compile(r"bearer(?![^\s,])", re.IGNORECASE)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_CREDENTIALS = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\s+\S.*")
_PARAMETER = re.compile(r"\s*[^\s=]+\s*=.*")
_QUOTABLE = re.compile(r"[\x20-\x7e]+")
_SCOPES = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")

Header = str | Sequence[str] | None
"""The Authorization header as a framework gives it: a text, the texts of all such headers, or None."""


class TokenVerifier(Protocol):
    """Anything that makes a principal from a token: ``windlass.Verifier``, or an object of the application's own."""

    def verify(self, token: str) -> Principal:
        """Return the principal of a token; ``TokenError`` for a token that cannot be trusted."""
        ...


class Verified(NamedTuple):
    """The principal of a request and its token; both are None for a request without a token, where that is optional."""

    principal: Principal | None
    token: str | None

    def __repr__(self) -> str:
        return f"<verified {self.principal!r}>"


class BearerCheck:
    """Verifies bearer tokens. Safe to share between threads and event loops.

    ``roles`` are required, all of them. With ``optional`` a request without the header Authorization, or with the credentials of another
    scheme in it, is accepted, without a principal; a token that is wrong, and a header that is empty, malformed or there twice, are refused
    all the same. ``realm`` is shown to clients in the challenge (WWW-Authenticate).
    """

    def __init__(
        self,
        verifier: TokenVerifier,
        *,
        roles: Sequence[str] = (),
        optional: bool = False,
        realm: str = "api",
    ) -> None:
        if not callable(getattr(verifier, "verify", None)):
            raise ConfigError(
                "verifier", type(verifier).__name__, "an object with verify(token), such as Verifier(...)"
            )
        self._verifier = verifier
        self._roles = (roles,) if isinstance(roles, str) else tuple(roles)
        self._optional = optional
        if not _QUOTABLE.fullmatch(realm) or '"' in realm or "\\" in realm:
            raise ConfigError("realm", realm, "printable ASCII without quotes and backslashes")
        self._challenge = f'Bearer realm="{realm}"'

    @property
    def may_block(self) -> bool:
        """Whether a check may wait for something, such as keys that are fetched: then an event loop must not run it."""
        return bool(getattr(self._verifier, "may_block", True))

    def __call__(self, header: Header) -> Verified:
        """Return the principal of a request by its Authorization header; ``AuthenticationError`` for a request that is refused."""
        token = self._token(header)
        if token is None:
            return Verified(None, None)
        try:
            principal = self._verifier.verify(token)
        except TokenError as error:
            raise self._refused(error.code, error.problem.replace(token, "***")) from None
        if missing := [role for role in self._roles if not principal.has(role)]:
            raise AuthenticationError(
                403,
                NOT_ALLOWED,
                f"{principal.subject!r} lacks the role {', '.join(missing)}",
                {"WWW-Authenticate": f'{self._challenge}, error="insufficient_scope"{_scope(self._roles)}'},
            )
        return Verified(principal, token)

    async def check_async(self, header: Header) -> Verified:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self, header) if self.may_block else self(header)

    def _token(self, header: Header) -> str | None:
        """Return the token of a header; None for a request without one, where that is optional."""
        if header is not None and not isinstance(header, str):
            if len(header) > 1:
                raise self._refused("token_malformed", "there are several headers Authorization")
            header = header[0] if header else None
        text = None if header is None else header.strip()
        if text is not None and _SCHEME.match(text):
            found = _BEARER.fullmatch(text)
            if found is None or found["token"] is None:
                raise self._refused("token_malformed", "the header Authorization is not one bearer token")
            return found["token"]
        if text is not None and not _is_one_of_another_scheme(text):
            raise self._refused(
                "token_malformed", "the header Authorization is empty, malformed or there twice"
            )
        if self._optional:
            return None
        raise AuthenticationError(
            401,
            MISSING,
            "this request needs a bearer token: Authorization: Bearer ...",
            {"WWW-Authenticate": self._challenge},
        )

    def _refused(self, code: str, problem: str) -> AuthenticationError:
        if code == "token_keys_unavailable":  # the client's token may be good: it should be sent again
            return AuthenticationError(
                503, code, f"the token is refused: {problem}", {"Retry-After": f"{AGAIN:.0f}"}
            )
        description = "".join(
            char if _QUOTABLE.fullmatch(char) and char not in '"\\' else "'" for char in problem
        )
        return AuthenticationError(
            401,
            code,
            f"the token is refused: {problem}",
            {
                "WWW-Authenticate": f'{self._challenge}, error="invalid_token", error_description="{description}"'
            },
        )


def _is_one_of_another_scheme(text: str) -> bool:
    """Whether a header has the credentials of one scheme, such as ``Basic dTpw`` or ``Digest name="value", name="value"``, for another check.

    Servers join two headers with a comma. After a comma only a parameter may follow: anything else is a second header, which may have a
    bearer token.
    """
    first, *others = _QUOTED.sub('""', text).split(",")
    return _CREDENTIALS.fullmatch(first) is not None and all(_PARAMETER.fullmatch(part) for part in others)


def _scope(roles: Sequence[str]) -> str:
    """The required roles as a parameter of the challenge; empty if a role has characters that a header must not have."""
    return f', scope="{" ".join(roles)}"' if all(_SCOPES.fullmatch(role) for role in roles) else ""
