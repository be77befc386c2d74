"""Who may read what: a county manager the own counties, a state auditor all. Rights come from the verified token of a request."""

from __future__ import annotations

import os
import time

from windlass import ClaimPaths, Principal, Verifier

MANAGER, AUDITOR = "county-manager", "state-auditor"
ISSUER, AUDIENCE = "https://id.timesheets.example", "timesheets"
SHORTEST_SECRET = 32


def secret() -> bytes:
    """The key of tokens, from ``TIMESHEETS_SECRET``."""
    found = os.environ.get("TIMESHEETS_SECRET", "").encode()
    if len(found) < SHORTEST_SECRET:
        raise RuntimeError(f"TIMESHEETS_SECRET must be set, to {SHORTEST_SECRET} bytes or more")
    return found


def verifier() -> Verifier:
    """Checks tokens; an issuer of yours has public keys instead of a secret."""
    return Verifier(
        algorithms=["HS256"],
        keys={"timesheets": secret()},
        issuer=ISSUER,
        audience=AUDIENCE,
        claims=ClaimPaths(roles="roles", attributes={"county": "county"}),
    )


def new_token(subject: str, role: str, counties: list[str], seconds: int = 3600) -> str:
    """A token for tests and for trying the example; real ones come from your issuer."""
    import jwt

    claims = {
        "sub": subject,
        "roles": [role],
        "county": counties,
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": int(time.time()) + seconds,
    }
    return jwt.encode(claims, secret(), "HS256", {"kid": "timesheets"})


def may_read(user: Principal | None, county: str) -> bool:
    """Whether a person or service may read the timesheets of a county."""
    if user is None:
        return False
    return user.has(AUDITOR) or (user.has(MANAGER) and user.allows(county=county))


def may_open(user: Principal, owner: str, county: str) -> bool:
    """Whether a person may open a report: an own one, or one of a schedule or rule, of a county that the person may read now."""
    return may_read(user, county) and (user.has(AUDITOR) or owner in ("", user.subject))
