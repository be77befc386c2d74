"""The kinds of problems: for each a code, a status, a title, and what to do about it; and the kind of each error of the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass import errors


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem. Its page is served at ``/problems/<code>``."""

    code: str
    status: int
    title: str
    about: str
    retry_after: int | None = None
    """Seconds after which the same request may work, for the header Retry-After."""


_KINDS = (
    ProblemKind("unauthenticated", 401, "Not signed in", "Send a bearer token, an API token or the cookie of a session."),
    ProblemKind("forbidden", 403, "Not allowed", "The caller lacks a role for this. `detail` names the role."),
    ProblemKind("cross-site", 403, "Request of another site", "A browser sent this request from a page of another site; with a cookie that is refused."),
    ProblemKind("wrong-host", 421, "Wrong host", "The header Host names a host that this server does not serve. The setting api.hosts lists the allowed names."),
    ProblemKind("not-found", 404, "No such resource", "There is nothing at this address. The OpenAPI document lists all addresses."),
    ProblemKind("method-not-allowed", 405, "Method not allowed", "The address exists, and has other methods; the header Allow lists them."),
    ProblemKind("not-acceptable", 406, "Not acceptable", "The API has no response in the form that the header Accept asks for."),
    ProblemKind("job-not-found", 404, "No such job", "Check the id; a job that ended may have been pruned, and jobs of other people are not shown."),
    ProblemKind("operation-not-found", 404, "No such operation", "Check the id; GET /v1/operations lists the operations."),
    ProblemKind("instance-not-found", 404, "No such instance", "No living instance has this id; an instance has a new id after each start."),
    ProblemKind("request-not-found", 404, "No such request", "No request to an instance has this id; requests are kept for a month."),
    ProblemKind("schedule-not-found", 404, "No such schedule", "GET /v1/schedules lists the schedules."),
    ProblemKind("rule-not-found", 404, "No such rule", "GET /v1/rules lists the rules."),
    ProblemKind("phase-not-found", 404, "No such phase", "GET /v1/phases lists the phases."),
    ProblemKind("pipeline-not-found", 404, "No such pipeline", "GET /v1/pipelines lists the kinds and pipelines."),
    ProblemKind("output-not-found", 404, "No such output", "The job has no output of this phase and name; GET /v1/jobs/{id}/outputs lists its outputs."),
    ProblemKind("malformed-json", 400, "Malformed JSON", "The body is not JSON. `errors` has the place."),
    ProblemKind("nested-too-deeply", 400, "Nested too deeply", "The JSON of the body has more nested lists and objects than the setting api.max_depth allows."),
    ProblemKind("unsupported-media-type", 415, "Unsupported content type", "Send the body as application/json; many jobs also as application/x-ndjson."),
    ProblemKind("body-too-large", 413, "Body too large", "The body is larger than the setting api.max_body_bytes (api.max_batch_bytes for many jobs) allows."),
    ProblemKind("slow-body", 408, "Body too slow", "The body did not arrive in the time of the setting api.body_timeout."),
    ProblemKind("invalid-request", 422, "Invalid request", "A parameter or a part of the body has a wrong value. `errors` points to each of them."),
    ProblemKind("unknown-kind", 422, "Unknown kind", "No kind of this name is defined in the application. GET /v1/pipelines lists the kinds."),
    ProblemKind("invalid-arguments", 422, "Invalid arguments", "The arguments do not fit the handler of the kind. `errors` points to the wrong ones."),
    ProblemKind("payload-too-large", 413, "Arguments too large", "The arguments of a job are larger or deeper than the settings payload.* allow."),
    ProblemKind("too-many-jobs", 413, "Too many jobs", "One request may submit as many jobs as the setting api.max_jobs says."),
    ProblemKind("invalid-filter", 422, "Invalid filter", "The filter cannot be read. `errors` has the place, and what to write instead."),
    ProblemKind("invalid-cursor", 422, "Invalid cursor", "Send the next_cursor of the page before, unchanged."),
    ProblemKind("unknown-parent", 422, "Unknown parent", "A job in `after` does not exist. Nothing was submitted."),
    ProblemKind("dependency-cycle", 422, "Jobs that wait for each other", "Remove one entry of `after`. Nothing was submitted."),
    ProblemKind("illegal-transition", 409, "Not possible in this state", "The state of the job does not allow this. `state` is its state now."),
    ProblemKind("act-refused", 409, "Not possible now", "The job as it is now does not allow this; `detail` says why and what helps."),
    ProblemKind("key-conflict", 409, "Key used with other arguments", "The unique key belongs to a job with other arguments. Use another key, or the same arguments."),
    ProblemKind("schedule-conflict", 409, "Schedule defined in code", "A schedule of code cannot be changed here."),
    ProblemKind("edit-conflict", 412, "Changed meanwhile", "Another caller changed the job. Read it again, and repeat the change with its new ETag."),
    ProblemKind("if-match-required", 428, "If-Match required", "Send the header If-Match with the ETag of the job that was read."),
    ProblemKind("idempotency-key-reused", 422, "Idempotency key used with another body", "A key belongs to one request. Use a new key for another one."),
    ProblemKind("idempotency-key-in-use", 409, "First request not finished", "The first request with this key is not finished. Repeat the request.", 1),
    ProblemKind("too-many-waits", 429, "Too many waiting requests", "The caller has as many requests that wait as the setting api.waits allows.", 1),
    ProblemKind("too-many-streams", 429, "Too many streams", "The caller has as many streams open as the setting api.streams allows.", 5),
    ProblemKind("store-unreachable", 503, "Database unreachable", "The database does not respond. Repeat the request.", 2),
    ProblemKind("outcome-unknown", 503, "Outcome unknown", "The connection broke during the commit. Repeat the request with the same Idempotency-Key.", 2),
    ProblemKind("store-busy", 503, "Database busy", "Nothing was written. Repeat the request.", 1),
    ProblemKind("statement-timeout", 503, "Statement took too long", "The database ended the statement (api.read_timeout); nothing was changed. For a list or a count, give a narrower filter: a state, a kind, a phase or an age.", 1),
    ProblemKind("store-error", 503, "Database refused the request", "The database cannot do this now. See the log of the server and `windlass doctor`.", 30),
    ProblemKind("stopping", 503, "Server is stopping", "Repeat the request; another server, or this one after its start, will respond.", 2),
    ProblemKind("authentication-unavailable", 503, "Cannot verify the token now", "The keys that verify tokens could not be fetched. Repeat the request.", 5),
    ProblemKind("internal-error", 500, "Internal error", "An error of the server. Its log has the details under `request_id`."),
)  # fmt: skip
KINDS: Mapping[str, ProblemKind] = {kind.code: kind for kind in _KINDS}

OF_ERRORS: Mapping[type[errors.WindlassError], str] = {
    errors.JobNotFoundError: "job-not-found",
    errors.OperationNotFoundError: "operation-not-found",
    errors.InstanceNotFoundError: "instance-not-found",
    errors.ScheduleNotFoundError: "schedule-not-found",
    errors.RuleNotFoundError: "rule-not-found",
    errors.FilterError: "invalid-filter",
    errors.PayloadTooLargeError: "payload-too-large",
    errors.PayloadError: "invalid-arguments",
    errors.UnknownParentError: "unknown-parent",
    errors.DependencyCycleError: "dependency-cycle",
    errors.IllegalTransitionError: "illegal-transition",
    errors.ActRefusedError: "act-refused",
    errors.KeyConflictError: "key-conflict",
    errors.ScheduleConflictError: "schedule-conflict",
    errors.EditConflictError: "edit-conflict",
    errors.NotAllowedError: "forbidden",
    errors.EnqueueUnknownError: "outcome-unknown",
    errors.StoreBusyError: "store-busy",
    errors.StoreUnreachableError: "store-unreachable",
    errors.StoreInterruptedError: "statement-timeout",
    errors.StoreError: "store-error",
    errors.WaitEndedError: "stopping",
    errors.ConfigError: "invalid-request",
}
"""The kind of each error; an error of another class has that of its nearest base, and without one it is an internal error."""


def kind_of(error: errors.WindlassError) -> ProblemKind:
    """The kind of an error of the library."""
    return next(
        (KINDS[OF_ERRORS[base]] for base in type(error).__mro__ if base in OF_ERRORS), KINDS["internal-error"]
    )
