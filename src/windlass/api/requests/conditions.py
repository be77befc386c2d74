"""Entity tags: the header ETag of a job, If-Match of a change, and If-None-Match of a read."""

from __future__ import annotations

from windlass.api.problems.problem import ProblemError


def etag(version: str) -> str:
    """The entity tag of a version."""
    return f'"{version}"'


def is_known(version: str, if_none_match: str | None) -> bool:
    """Whether the client has a version already, by the header If-None-Match: entity tags, weak or not, or ``*``."""
    given = [part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")]
    return "*" in given or etag(version) in given


def required_version(if_match: str | None) -> str:
    """The version that a change is based on, from the header If-Match."""
    if if_match is None:
        raise ProblemError("if-match-required")
    text = if_match.strip()
    if len(text) > 2 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
        return text[1:-1]
    raise ProblemError(
        "invalid-request",
        "the header If-Match must be the ETag of the job, in quotes",
        errors=[("header:If-Match", 'must be one entity tag, such as "9c1185a5c5e9fc54"')],
    )
