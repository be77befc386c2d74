"""``./dev test``: the checks and pytest, on one interpreter or on several, once or many times."""

import argparse
import os
import time
from collections.abc import Sequence

from tools.dev.checks import check_parts, ensure_chromium, report_failed_checks
from tools.dev.compiling import compiling
from tools.dev.environment import Environment
from tools.dev.interpreters import Interpreter, find, running, supported, wanted
from tools.dev.repeating import RESULTS, Repetition
from tools.dev.running import STOPPED, python
from tools.dev.steps import say

CI_LIMIT, CI_QUICK_LIMIT = 3300, 900
"""Seconds for the two kinds of runs in CI, several times what a quiet machine needs: a run that hangs must not take the others with it."""


def test(arguments: list[str]) -> int:
    """Everything but our own options goes to pytest."""
    options, rest = _parser().parse_known_args(arguments)
    if options.quick and options.long:
        say("dev: --quick leaves out what --long adds; give one of them")
        return 2
    chosen = options.pythons.split(",") if options.pythons else [options.python] if options.python else []
    interpreters = [wanted(minor.strip()) for minor in chosen] or [running()]
    is_checked = not options.no_check and any(item.minor == running().minor for item in interpreters)
    variables = {"WINDLASS_REQUIRE_REAL": "1"}
    if options.quick:
        variables |= {"WINDLASS_TEST_QUICK": "1"}
    else:
        ensure_chromium()
    if options.long:
        variables |= {"WINDLASS_TEST_LONG": "1"}
    failed = _checked(variables) if is_checked else []
    codes: dict[str, int] = {}
    for interpreter in interpreters:
        codes[interpreter.version] = code = _run(interpreter, rest, variables, options)
        if code in STOPPED:
            return code
    if len(codes) > 1:
        for version, code in codes.items():
            say(f"dev: Python {version}: {'passed' if code == 0 else f'FAILED ({code})'}")
    report_failed_checks(failed)
    return next((code for code in codes.values() if code), 1 if failed else 0)


def ci(arguments: list[str]) -> int:
    """The whole suite on the running interpreter, the quick set on every other supported one that this machine has."""
    told: list[str] = []
    codes: list[int] = []
    for minor in [running().minor, *(minor for minor in supported() if minor != running().minor)]:
        is_main = minor == running().minor
        what = "the whole suite" if is_main else "the quick set"
        interpreter = find(minor)
        if interpreter is None:
            told.append(f"Python {minor}: not found, {what} did not run")
            continue
        began = time.monotonic()
        say(f"dev: {what} on Python {interpreter.version}")
        kind = (
            ["--limit", f"{CI_LIMIT}"]
            if is_main
            else ["--quick", "--python", minor, "--limit", f"{CI_QUICK_LIMIT}"]
        )
        code = test([*kind, *arguments])
        codes.append(code)
        word = "passed" if code == 0 else f"FAILED ({code})"
        told.append(
            f"Python {interpreter.version}: {what} {word}, {time.monotonic() - began:.0f} s with set-up"
        )
        if code in STOPPED:
            break
    for line in told:
        say(f"dev: {line}")
    return next((code for code in codes if code), 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev test", add_help=False, allow_abbrev=False)
    parser.add_argument("--no-check", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--python")
    parser.add_argument("--pythons")
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--results", default=str(RESULTS))
    parser.add_argument("--limit", type=float)
    return parser


def _checked(variables: dict[str, str]) -> list[str]:
    environment = Environment()
    with environment.ready(), compiling(environment, **variables):
        return check_parts(environment)


def _run(
    interpreter: Interpreter, arguments: Sequence[str], variables: dict[str, str], options: argparse.Namespace
) -> int:
    environment = Environment(interpreter)
    command = ["-m", "pytest", *_workers(arguments), *arguments]

    def once(*more: str) -> int:
        return python(environment, *command, *more, limit=options.limit, **variables)

    with environment.ready():
        if options.repeat is None and not options.load:
            return once()
        kind = [flag for flag in ("quick", "long") if getattr(options, flag)]
        return Repetition(
            times=options.repeat or 1,
            load=options.load,
            python=interpreter.version,
            arguments=[*(f"--{flag}" for flag in kind), *arguments],
            results=options.results,
        ).run(once)


def _workers(arguments: Sequence[str]) -> list[str]:
    """Several processes, unless the person asked for a number of their own or for the debugger."""
    if any(a.startswith(("-n", "--numprocesses")) or a in ("--pdb", "no:xdist") for a in arguments):
        return []
    # Four more than cores: more than half of the suite's time is spent in waiting for leases, kills and servers. With three more, two cores
    # had nothing to do for a tenth of the run.
    return ["-n", str(min(6, (os.cpu_count() or 1) + 4)), "--dist", "worksteal"]
