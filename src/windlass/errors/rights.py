"""Errors of principals, tokens and locks: what may not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.errors.base import WindlassError


class NotAllowedError(WindlassError):
    """The principal lacks a right. Raised in a handler, it ends the job as failed, without another attempt."""

    code = "not_allowed"

    def __init__(self, message: str, *, subject: str | None = None, missing: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.subject, self.missing = subject, tuple(missing)


class NoPrincipalError(NotAllowedError):
    """The job has no principal, and needs one."""

    code = "no_principal"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} has no principal, and needs one; enqueue it with principal=..., or inside `with app.as_principal(...)`"
        )


class PrincipalExpiredError(NotAllowedError):
    """The principal expired before the job ran, and its kind has ``principal_expiry="fail"`` or ``"recheck"``."""

    code = "principal_expired"

    def __init__(self, job_id: str, expired_at: object) -> None:
        super().__init__(
            f"the principal of job {job_id} expired at {expired_at}; it was not run. Enqueue it anew."
        )
        self.job_id, self.expired_at = job_id, expired_at


class PrincipalDeniedError(NotAllowedError):
    """The application's own check (``app.recheck_principal``) denied the job's principal."""

    code = "principal_denied"

    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(f"the principal of job {job_id} was checked again and denied: {why}")
        self.job_id, self.why = job_id, why


class PrincipalErasedError(NotAllowedError):
    """The principal was erased after the job's end, so its rights are unknown."""

    code = "principal_erased"

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"the principal of job {job_id} was erased after its end (erase_principal_after), and without it the job may do nothing; "
            "enqueue it anew with principal=..."
        )
        self.job_id = job_id


class TokenError(WindlassError):
    """A token that cannot be trusted. ``code`` says why (``token_expired``, ``token_signature``, …); no message contains the token."""

    code = "token"

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(f"the token is refused: {problem}")
        self.code, self.problem = code, problem


class AuthenticationError(WindlassError):
    """A web request that is refused: without a token, with one that cannot be trusted, or of a principal without a required role.
    ``status`` and ``headers`` belong to the HTTP response, ``code`` says why; no part of it contains the token."""

    code = "authentication"

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers)

    @property
    def body(self) -> dict[str, str]:
        """The refusal as JSON for the client: ``code`` and ``message``."""
        return {"code": self.code, "message": self.message}


class SealError(WindlassError):
    """A kept token that cannot be read: the key that sealed it is missing, or it was sealed for another job."""

    code = "seal"

    def __init__(self, code: str, problem: str) -> None:
        super().__init__(f"the kept token cannot be read: {problem}")
        self.code, self.problem = code, problem


class LockUnavailableError(WindlassError):
    """Redis is unreachable, and with ``redis_lock_required`` no work starts without a lock."""

    code = "lock_unavailable"

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(
            f"{what} cannot be locked: {problem}; nothing was started. Check Redis and try again, or set "
            "redis_lock_required to false: then locks hold inside each process while Redis is unreachable."
        )
        self.what, self.problem = what, problem
