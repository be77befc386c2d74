"""Turns errors into one line on stderr and a stable exit code; never into a traceback for a known error.

A traceback is shown only for an unexpected error, because that is a bug and its place matters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import IntEnum

import click

from windlass import errors
from windlass.cli.exit_deadline import Caller
from windlass.observe.safe_text import escaped
from windlass.urls import without_secrets


class ExitCode(IntEnum):
    """What the exit codes of ``windlass`` mean."""

    DONE = 0
    ENDED_BADLY = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 69
    NOT_ALLOWED = 77
    WAIT_RAN_OUT = 124
    INTERRUPTED = 130


_BY_ERROR: tuple[tuple[type[errors.WindlassError], ExitCode], ...] = (
    (errors.ConfigError, ExitCode.USAGE),
    (errors.PayloadError, ExitCode.USAGE),
    (errors.JobNotFoundError, ExitCode.NOT_FOUND),
    (errors.ScheduleNotFoundError, ExitCode.NOT_FOUND),
    (errors.RuleNotFoundError, ExitCode.NOT_FOUND),
    (errors.OperationNotFoundError, ExitCode.NOT_FOUND),
    (errors.InstanceNotFoundError, ExitCode.NOT_FOUND),
    (errors.UnknownParentError, ExitCode.NOT_FOUND),
    (errors.IllegalTransitionError, ExitCode.CONFLICT),
    (errors.ActRefusedError, ExitCode.CONFLICT),
    (errors.EditConflictError, ExitCode.CONFLICT),
    (errors.KeyConflictError, ExitCode.CONFLICT),
    (errors.DependencyCycleError, ExitCode.CONFLICT),
    (errors.RuleCycleError, ExitCode.CONFLICT),
    (errors.ScheduleConflictError, ExitCode.CONFLICT),
    (errors.LeaseLost, ExitCode.CONFLICT),
    (errors.StoreReadOnlyError, ExitCode.NOT_ALLOWED),
    (errors.StoreNotAllowedError, ExitCode.NOT_ALLOWED),
    (errors.NotAllowedError, ExitCode.NOT_ALLOWED),
    (errors.TokenError, ExitCode.NOT_ALLOWED),
    (errors.AuthenticationError, ExitCode.NOT_ALLOWED),
    (errors.StoreUnreachableError, ExitCode.UNREACHABLE),
    (errors.LockUnavailableError, ExitCode.UNREACHABLE),
    (errors.ResultTimeout, ExitCode.WAIT_RAN_OUT),
)

# The driver's error is more precise than ours: a lock that was not granted is "wait ran out".
_BY_SQLSTATE = {
    "55P03": ExitCode.WAIT_RAN_OUT,
}


def code_of(error: errors.WindlassError) -> ExitCode:
    """The exit code of an error."""
    cause = error.__cause__
    sqlstate = getattr(cause, "sqlstate", None)
    if sqlstate in _BY_SQLSTATE:
        return _BY_SQLSTATE[sqlstate]
    if str(getattr(cause, "sqlite_errorname", "")).startswith("SQLITE_BUSY"):
        return ExitCode.WAIT_RAN_OUT
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.ENDED_BADLY)


def say(message: str) -> None:
    """Print a message for people on stderr; scripts read stdout."""
    click.echo("\n".join(map(escaped, message.split("\n"))), err=True)


def complain(message: str, code: int) -> int:
    """Print an error in one line; returns the code."""
    say(f"error: {' '.join(without_secrets(message).split())}")
    return code


def _usage(error: click.ClickException) -> str:
    """The message of a usage error with the command whose help has more; without options that are not for people."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message()
    if isinstance(error, click.BadParameter):  # click calls the type of a number with bounds a range
        message = message.replace("is not a valid integer range", "is not a whole number")
        message = message.replace("is not a valid float range", "is not a number")
    if context is None:
        return message
    if isinstance(error, click.NoSuchOption):
        shown = {
            name
            for item in context.command.params
            if not getattr(item, "hidden", False)
            for name in item.opts
        }
        near = ", ".join(name for name in error.possibilities or () if name in shown)
        message = error.message.rstrip(".") + (f"; did you mean {near}?" if near else "")
    return f"{message.removesuffix('.')}; see `{context.command_path} --help`"


def run(command: click.Command, arguments: Sequence[str] | None, program: str) -> int:
    """Run a command and turn every exception into an exit code.

    Without ``arguments`` it uses those of the process, and the process counts as the command's own.
    """
    try:
        result = command.main(
            args=None if arguments is None else list(arguments),
            prog_name=program,
            standalone_mode=False,
            obj=Caller(owns_process=arguments is None),
        )
        sys.stdout.flush()
    except errors.WindlassError as error:
        return complain(error.message, code_of(error))
    except click.ClickException as error:
        # A group without a command shows its help; releases of click before 8.2 have no error for that.
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            error.show()
            return error.exit_code
        return complain(_usage(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return complain("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`). Python flushes stdout once more at exit: discard that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.ENDED_BADLY
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("psycopg", "psycopg_pool"):
            raise
        return complain(
            "PostgreSQL needs a driver that is not installed; pip install 'windlass[postgres]'",
            ExitCode.USAGE,
        )
    return int(result) if isinstance(result, int) else ExitCode.DONE
