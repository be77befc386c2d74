"""What an experiment found: facts, and bars that they have to meet."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the table; ``bar`` is empty for a plain fact."""

    what: str
    value: Any
    bar: str = ""
    holds: bool = True
    evidence: tuple[str, ...] = ()

    @property
    def is_time(self) -> bool:
        """Whether it is an amount of time, which depends on the machine: its unit ends its name."""
        return self.what.endswith((", s", ", ms"))


@dataclass(slots=True)
class Findings:
    """The table of one experiment on one database."""

    experiment: str
    database: str
    facts: list[Fact] = field(default_factory=list)

    def note(self, what: str, value: Any) -> None:
        """A number that nobody promised."""
        self.facts.append(Fact(what, value))

    def least(self, what: str, value: float, bar: float) -> None:
        """Something that has to have happened so often, or the run proves nothing."""
        self.facts.append(Fact(what, value, f"≥ {bar:g}", value >= bar))

    def most(self, what: str, value: float, bar: float) -> None:
        """Something that may not be more."""
        self.facts.append(Fact(what, value, f"≤ {bar:g}", value <= bar))

    def none(self, what: str, items: Collection[Any]) -> None:
        """Something of which there may be none; some are shown."""
        shown = tuple(str(item) for item in list(items)[:SHOWN])
        self.facts.append(Fact(what, len(items), "0", not items, shown))

    def holds(self, what: str, value: Any, is_so: bool) -> None:
        """Something that has to be so."""
        self.facts.append(Fact(what, value, "yes", is_so))

    @property
    def violations(self) -> list[str]:
        """What was broken, in words."""
        return [self._words(fact) for fact in self.facts if not fact.holds]

    @property
    def violations_but_times(self) -> list[str]:
        """What was broken, whatever else the machine has to do meanwhile; times are judged where it has nothing else."""
        return [self._words(fact) for fact in self.facts if not fact.holds and not fact.is_time]

    def _words(self, fact: Fact) -> str:
        evidence = f" ({'; '.join(fact.evidence)})" if fact.evidence else ""
        return f"{self.experiment} on {self.database}: {fact.what} is {_text(fact.value)}, must be {fact.bar}{evidence}"

    def table(self) -> str:
        """For people."""
        lines = [f"\n{self.experiment} on {self.database}"]
        width = max([len(fact.what) for fact in self.facts], default=0)
        for fact in self.facts:
            mark = " " if not fact.bar else "✓" if fact.holds else "✗"
            lines.append(f"  {mark} {fact.what.ljust(width)}  {_text(fact.value):>10}  {fact.bar}".rstrip())
            lines += [f"      {line}" for line in fact.evidence]
        return "\n".join(lines)

    def as_json(self) -> Mapping[str, Any]:
        """For machines."""
        return {
            "experiment": self.experiment,
            "database": self.database,
            "passed": not self.violations,
            "facts": [
                {"what": fact.what, "value": fact.value, "bar": fact.bar, "holds": fact.holds}
                for fact in self.facts
            ],
            "violations": self.violations,
        }


def write(path: Path, runs: Collection[Findings]) -> None:
    """All tables as one JSON file."""
    path.write_text(json.dumps({"runs": [run.as_json() for run in runs]}, indent=2) + "\n")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
