"""The names that applications use: what ``windlass`` exports, and what App and Context show. A change here is a change for users."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import windlass.errors
import windlass.integrations
import windlass.observe.logs
import windlass.testing
from windlass import App, Context, JobHandle

ROOT = Path(__file__).resolve().parents[2]


def public(thing: type) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_the_package_exports_these_names() -> None:
    assert windlass.__all__ == EXPORTED
    for name in windlass.__all__:
        assert getattr(windlass, name) is not None


FACES = ("windlass.api", "windlass.client", "windlass.dashboard")
"""Packages that need extras of their own: guides import from them."""


def test_nothing_is_loaded_before_it_is_used() -> None:
    """``windlass --help`` starts at once."""
    code = "import sys, windlass; print(sorted(name for name in sys.modules if name.startswith(('windlass.', 'pydantic'))))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


LATER = (
    "psycopg",
    "pydantic",
    "pydantic_core",
    "sqlite3",
    "typing_extensions",
    "windlass.control",
    "windlass.engine",
    "windlass.features",
)
"""What the first definition, the first submission or the worker loads."""


def test_an_app_loads_only_what_it_is_made_of() -> None:
    """A command or a web server that makes an app and does nothing else with it starts at once."""
    code = "import sys, windlass; windlass.App('sqlite:///unused.db'); print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = shown.split()
    assert "windlass.app.app" in loaded
    assert not [name for name in loaded if name.startswith(LATER)]
    assert not [name for name in loaded if name.startswith(("windlass.store.jobs", "windlass.submit"))]


def test_a_context_has_what_handlers_use_and_no_more() -> None:
    assert public(Context) == CONTEXT


def test_an_app_hides_its_machinery() -> None:
    with App("sqlite:///unused.db") as app:
        assert public(type(app)) | {name for name in vars(app) if not name.startswith("_")} == APP


def test_a_handle_has_an_async_form_of_each_method() -> None:
    methods = {"cancel", "job", "progress", "result", "retry", "state", "wait"}
    assert public(JobHandle) == methods | {f"{name}_async" for name in methods} | {
        "created",
        "id",
        "replaced",
    }


def test_every_name_that_the_guides_import_is_exported_or_lives_in_a_module_of_its_own() -> None:
    """Guides import from ``windlass`` and from its public modules only."""
    allowed = {"windlass", "windlass.retry", "windlass.testing", "windlass.observe", *FACES}
    imported = set()
    for page in [ROOT / "README.md", *(ROOT / "docs" / "guides").glob("*.md")]:
        for line in page.read_text("utf-8").splitlines():
            words = line.split()
            if words[:1] == ["from"] and words[1].split(".")[0] == "windlass":
                imported.add(words[1])
    assert {name for name in imported if not name.startswith("windlass.integrations")} <= allowed


def test_every_class_that_the_guides_name_can_be_imported_from_a_public_module() -> None:
    """Errors to catch, values to give and types to check: from ``windlass``, or from a module that guides import from."""
    classes = set()
    for file in (ROOT / "src" / "windlass").rglob("*.py"):
        classes.update(re.findall(r"^class ([A-Z]\w+)", file.read_text("utf-8"), re.MULTILINE))
    faces = [importlib.import_module(name) for name in FACES]
    modules = [windlass, windlass.observe, windlass.observe.logs, windlass.testing, *faces, *adapters()]
    missing = {
        f"{name} ({page.name})"
        for page in [ROOT / "README.md", *(ROOT / "docs" / "guides").glob("*.md")]
        for name in re.findall(r"`([A-Z]\w+)[`(]", page.read_text("utf-8"))
        if name in classes - {"Bearer", "Session"}  # the scheme of HTTP, the session of SQLAlchemy
        and not any(hasattr(module, name) for module in modules)
    }
    assert missing == set()


def adapters() -> list[ModuleType]:
    found = pkgutil.iter_modules(windlass.integrations.__path__, "windlass.integrations.")
    return [importlib.import_module(module.name) for module in found]


def test_every_error_can_be_imported_from_the_package() -> None:
    """Whoever is told by a guide or by a log to catch it finds it there."""
    raised = {name for name in windlass.errors.__all__ if isinstance(getattr(windlass.errors, name), type)}
    assert raised - set(windlass.__all__) == set()


EXPORTED = sorted(
    [
        "ActRefusedError",
        "After",
        "App",
        "AuthenticationError",
        "Background",
        "Batch",
        "Cancel",
        "Chain",
        "ClaimPaths",
        "ConfigError",
        "Context",
        "CurrentAttempt",
        "Debounce",
        "DependencyCycleError",
        "DependencyPolicy",
        "EditConflictError",
        "EnqueueInAtomicError",
        "EnqueueUnknownError",
        "Enqueued",
        "Fail",
        "Filter",
        "FilterError",
        "HandlerError",
        "Held",
        "IllegalTransitionError",
        "InstanceNotFoundError",
        "Job",
        "JobCancelled",
        "JobFailed",
        "JobFilter",
        "JobHandle",
        "JobHandles",
        "JobKind",
        "JobNotFoundError",
        "JobOptions",
        "Key",
        "KeyConflictError",
        "KeyScope",
        "LeaseLost",
        "LockSettings",
        "LockUnavailableError",
        "NewJob",
        "NewSchedule",
        "NoPrincipalError",
        "NotAllowedError",
        "NotHeld",
        "OperationNotFoundError",
        "Parent",
        "Parents",
        "PayloadError",
        "PayloadTooLargeError",
        "Pipeline",
        "Principal",
        "PrincipalDeniedError",
        "PrincipalErasedError",
        "PrincipalExpiredError",
        "Progress",
        "Rate",
        "Reason",
        "Request",
        "ResultTimeout",
        "Retry",
        "RuleCycleError",
        "RuleNotFoundError",
        "SandboxError",
        "ScheduleConflictError",
        "ScheduleNotFoundError",
        "SchemaError",
        "SealError",
        "Settings",
        "State",
        "Stopped",
        "StoreBusyError",
        "StoreDamagedError",
        "StoreError",
        "StoreFullError",
        "StoreInterruptedError",
        "StoreNotAllowedError",
        "StoreReadOnlyError",
        "StoreUnreachableError",
        "Submission",
        "Throttle",
        "TokenError",
        "UnknownParentError",
        "Verifier",
        "WaitEndedError",
        "WindlassError",
        "build",
        "injected",
        "observe",
        "open_locks",
        "open_store",
        "per_hour",
        "per_minute",
        "per_second",
        "retry",
    ]
)

CONTEXT = {
    "alive",
    "attempt",
    "check_stop",
    "checkpoint",
    "checkpoint_async",
    "checkpoint_in",
    "checkpoint_in_async",
    "chunks",
    "complete_in",
    "complete_in_async",
    "correlation_id",
    "enqueue",
    "enqueue_async",
    "headers",
    "headers_async",
    "is_recovered",
    "job_id",
    "key",
    "kind",
    "max_attempts",
    "output",
    "output_async",
    "outputs",
    "parents",
    "phase",
    "principal",
    "principal_async",
    "put_output",
    "put_output_async",
    "recheck",
    "recheck_async",
    "require",
    "resume",
    "resume_async",
    "should_stop",
    "sleep",
    "sleep_async",
    "time_limit",
    "token",
    "token_async",
    "transaction",
}

APP = {
    "acting_as",
    "as_principal",
    "audit",
    "batch",
    "batch_async",
    "batch_in",
    "batch_in_async",
    "chain",
    "chain_async",
    "chain_in",
    "chain_in_async",
    "close",
    "config",
    "cron",
    "deploys",
    "doctor",
    "enqueue",
    "events",
    "failures",
    "handle",
    "history",
    "instances",
    "job",
    "jobs",
    "kind",
    "middleware",
    "of",
    "on_submit",
    "operations",
    "overview",
    "parts",
    "phases",
    "pipeline",
    "provide",
    "recheck_principal",
    "redact",
    "rules",
    "schedule",
    "schedules",
    "settings",
    "store",
    "sync",
    "tokens",
    "url",
    "when",
    "when_all",
    "worker",
}
