"""The WINDLASS_ variables of the environment: which set something, which are misspelt, and which are unknown.

A variable that is nearly the name of a setting is an error, because the setting would silently keep its default. Any other name is left
alone: variables of other tools may begin with the prefix, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from windlass.errors import ConfigError
from windlass.setting_keys import KNOWN
from windlass.setting_values import PREFIX
from windlass.urls import HIDDEN

FILE_VARIABLE = f"{PREFIX}CONFIG"
_LETTERS_AN_EDIT = 4

# Variables of Windlass that are no settings: of its tests, measurements and demonstrations, and of child processes.
_OWN = re.compile(rf"{PREFIX}(?:(?:TEST|BENCH|DEMO|MUTATE)_\w+|REQUIRE_REAL|CHILD_PRELOAD)")
# Kubernetes and Docker make some for each service: a service "windlass-worker" has WINDLASS_WORKER_PORT_8080_TCP_ADDR.
_SERVICES = re.compile(r"\w+_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)")


def given(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The values that variables set by their keys, each with its origin."""
    found: dict[str, tuple[str, str]] = {}
    for known in KNOWN.values():
        variable = next((name for name in known.variables if name in environ), None)
        if variable is not None:
            found[known.key] = environ[variable], f"environment {variable}"
    return found


def misspelt(environ: Mapping[str, str]) -> Iterator[ConfigError]:
    """An error for each variable whose name is nearly that of a setting."""
    for variable in _unknown(environ):
        if near := _meant(variable):
            yield ConfigError(
                variable, HIDDEN, because=f"there is no such setting; did you mean {near}?"
            )  # the value may be a secret


def ignored(environ: Mapping[str, str]) -> list[str]:
    """The variables that begin with the prefix and set nothing, without those that Windlass or a container platform makes."""
    return [name for name in _unknown(environ) if not _SERVICES.fullmatch(name) and not _meant(name)]


def _unknown(environ: Mapping[str, str]) -> Iterator[str]:
    ours = _variables()
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in ours and not _OWN.fullmatch(variable):
            yield variable


def _variables() -> set[str]:
    """All variables with the prefix that are read."""
    named = (variable for known in KNOWN.values() for variable in known.variables)
    return {FILE_VARIABLE, *(variable for variable in named if variable.startswith(PREFIX))}


def _meant(variable: str) -> str | None:
    """The variable that was probably meant, the nearest one first; None if there is none."""
    ours = _variables()
    if (with_unit := f"{variable}_MS") in ours:
        return with_unit
    words = variable.removeprefix(PREFIX).split("_")
    edits = ((_edits_of(words, known.removeprefix(PREFIX).split("_")), known) for known in ours)
    return min(((count, known) for count, known in edits if count is not None), default=(0, None))[1]


def _edits_of(words: list[str], known: list[str]) -> int | None:
    """How many letters make one name another; None if these are too many for a mistake.

    The names are compared word by word, with one edit for each four letters of a word: as a whole, WORKER_NAME and WORKER_PAGE
    would be nearly the same. A missing or additional underscore is an edit, too.
    """
    if len(words) != len(known):
        total = _edits("_".join(words), "_".join(known))
        return total if total == 1 else None
    counts = [_edits(word, other) for word, other in zip(words, known, strict=True)]
    allowed = (max(1, len(word) // _LETTERS_AN_EDIT) for word in known)
    return sum(counts) if all(count <= most for count, most in zip(counts, allowed, strict=True)) else None


def _edits(text: str, other: str) -> int:
    """The insertions, deletions, replacements and swaps of neighbours that make one text another."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(text, 1):
        last, before, row = before, row, [i]
        for j, expected in enumerate(other, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != expected))
            if i > 1 and j > 1 and letter == other[j - 2] and text[i - 2] == expected:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]
