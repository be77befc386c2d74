"""Deletes each guard from the store's SQL in turn and sees that a test notices: ``./dev mutate-sql``.

A survivor is a guard that no test misses. Either a test is missing, or the guard serves nothing, or it is a belt: it is
there for the planner or the grammar, or behind another guard, and its line says so (``-- belt: <reason>``).

How it is fast: one process a core imports everything, collects the tests and starts a PostgreSQL server once; a mutant is
a forked child of it that puts the mutated text in place of the compiled statement and runs only the tests that run that
statement (known from a first pass), the ones most likely to fail first, until one fails. It works on a copy of the
tree, so that editing may go on meanwhile.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.mutation.trials import Known, Pool, Result, doubt, try_all  # noqa: E402
from tests.sql_guards import DIALECTS, PACKAGE, Mutant, find  # noqa: E402

HOME = "WINDLASS_MUTATE_HOME"  # set in the copy: where the tree it was made of lies
TESTS = (
    "tests/conformance",
    *(
        f"tests/{feature}"
        for feature in (
            "audit",
            "dependencies",
            "expiry",
            "headers",
            "idempotency",
            "keys",
            "limits",
            "principals",
            "rules",
            "schedules",
            "tokens",
        )
    ),
    "tests/control",
    "tests/interleavings",
    "tests/plans/test_guard_plans.py",
)


def control(dialect: str) -> Mutant:
    """A mutant that changes nothing; if anything kills it, the numbers of this run mean nothing."""
    guard = next(mutant for mutant in find(dialect) if mutant.kind == "guard" and mutant.verb == "start")
    return dataclasses.replace(guard, put=f"({guard.text})", kind="control", belt=None)


def chosen(options: argparse.Namespace) -> list[Mutant]:
    """The mutants this run is about, belts included."""
    dialects = [options.dialect] if options.dialect else DIALECTS
    mutants = [
        mutant
        for dialect in dialects
        for mutant in find(dialect)
        if any(fnmatch.fnmatch(mutant.verb, pattern) for pattern in options.verb or ["*"])
        and any(fnmatch.fnmatch(mutant.kind, pattern) for pattern in options.kind or ["*"])
        and (options.line is None or mutant.line == options.line)
    ]
    if options.again:
        survivors = {tuple(item) for item in _survivors(options.again)}
        mutants = [
            mutant
            for mutant in mutants
            if (mutant.dialect, mutant.verb, mutant.text, mutant.put) in survivors
        ]
    if options.sample:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    if options.control:
        mutants += [control(dialect) for dialect in dialects]
    return mutants


def _survivors(report: Path) -> Iterator[tuple[str, str, str, str]]:
    for item in json.loads(report.read_text())["results"]:
        if item["killer"] is None:
            yield item["dialect"], item["verb"], item["text"], item["put"]


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev mutate-sql", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dialect", choices=DIALECTS, help="only this one")
    parser.add_argument(
        "--verb", action="append", metavar="PATTERN", help='only these verbs, as in "record.*"'
    )
    parser.add_argument("--kind", action="append", metavar="PATTERN", help='only these kinds, as in "*lock*"')
    parser.add_argument("--line", type=int, help="only guards that begin on this line")
    parser.add_argument("--list", action="store_true", help="show the mutants and stop")
    parser.add_argument(
        "--belts", action="store_true", help="try only belts: one that is killed needs no excuse"
    )
    parser.add_argument(
        "--control", action="store_true", help="add a mutant that changes nothing and must survive"
    )
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only the survivors of an earlier --json report"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--most", type=int, metavar="N", help="give a mutant up after N tests: a quick look, no proof"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: cores)"
    )
    parser.add_argument(
        "--tests", action="extend", nargs="+", metavar="PATH", help=f"default: {' '.join(TESTS)}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there too")
    return parser.parse_args(words)


def digest() -> str:
    """Changes when anything changes that the first pass depends on."""
    found = hashlib.sha256()
    for folder in (PACKAGE, ROOT / "tests"):
        for path in sorted(folder.rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def go_to_a_copy() -> NoReturn:
    """Copy the tree and begin again there, as the same process."""
    folder = Path(
        tempfile.mkdtemp(prefix="windlass-mutate-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    )
    for name in ("src", "tests", "chaos", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    environment = {**os.environ, HOME: str(ROOT), "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    script = str(folder / "tests" / "mutate_sql.py")
    os.execve(sys.executable, [sys.executable, "-P", script, *sys.argv[1:]], environment)


def main() -> int:
    options = arguments()
    mutants = chosen(options)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.kind:12} {mutant.describe()}{f'  (belt: {mutant.belt})' if mutant.belt else ''}")
        print(summary(mutants))
        return 0
    if HOME not in os.environ:
        if options.json:
            sys.argv += ["--json", str(options.json.resolve())]
        go_to_a_copy()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the copy goes away
    try:
        os.chdir(ROOT)
        return run(options, mutants)
    finally:
        shutil.rmtree(ROOT, ignore_errors=True)


def run(options: argparse.Namespace, mutants: Sequence[Mutant]) -> int:
    began = time.monotonic()
    belts = [mutant for mutant in mutants if mutant.belt]
    tried = [
        m for m in (belts if options.belts else mutants) if bool(m.belt) == options.belts and m.text != m.put
    ]
    tests = options.tests or [name for name in TESTS if (ROOT / name).exists()]
    known = Known.load(Path(os.environ[HOME]), digest())
    pool = Pool(max(1, min(options.jobs, len(tried))), tests, ROOT)
    try:
        known.measure(pool, sorted({mutant.dialect for mutant in tried}))
        if not options.tests:
            known.save()
        results = try_all(tried, pool, known, options.most)
        doubtful = doubt(results, pool)
        known.killers = {key: name for key, name in known.killers.items() if name not in doubtful}
        if not options.tests:
            known.save()
    finally:
        pool.close()
    for result in results:
        if result.killer in doubtful:
            result.killer, result.why = None, f"{result.killer} fails without a mutant too"
    survivors = [result for result in results if result.killer is None]
    seconds = time.monotonic() - began
    report(options, mutants, results, known, pool, seconds)
    if options.json:
        text = {"seconds": seconds, "results": [result.as_json() for result in results]}
        options.json.write_text(json.dumps(text, indent=1))
    return 1 if bool(survivors) != options.belts else 0


def report(
    options: argparse.Namespace,
    mutants: Sequence[Mutant],
    results: Sequence[Result],
    known: Known,
    pool: Pool,
    seconds: float,
) -> None:
    for name in pool.broken:
        print(f"LEFT OUT, it cannot be imported: {name}")
    for name, why in known.failing.items():
        if name in pool.items:
            print(f"LEFT OUT, it fails without a mutant: {name}: {why}")
    if options.belts:
        for result in results:
            verdict = f"KILLED by {result.killer} ({result.why})" if result.killer else "not observed"
            print(f"belt: {result.mutant.describe()}\n      {result.mutant.belt}\n      {verdict}")
    else:
        for mutant in mutants:
            if mutant.belt:
                print(f"belt: {mutant.describe()}  ({mutant.belt})")
        for result in results:
            if result.killer is None:
                note = f"  ({result.why})" if result.why else ""
                print(f"SURVIVES {result.tests} tests: {result.mutant.describe()}{note}")
    print(summary(mutants))
    for dialect in DIALECTS:
        own = [result for result in results if result.mutant.dialect == dialect]
        killed = sum(1 for result in own if result.killer)
        if own:
            print(f"{dialect}: {len(own)} tried, {killed} killed, {len(own) - killed} survive")
    print(f"{seconds:.0f} s")


def summary(mutants: Sequence[Mutant]) -> str:
    lines = []
    for dialect in DIALECTS:
        own = [mutant for mutant in mutants if mutant.dialect == dialect]
        kinds = Counter(mutant.kind for mutant in own)
        listed = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
        lines.append(
            f"{dialect}: {len(own)} mutants ({listed}), {sum(1 for m in own if m.belt)} of them belts"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
