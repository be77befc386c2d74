"""What the doctor finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from windlass.urls import without_secrets


class Severity(StrEnum):
    """``error``: jobs do not run, or soon will not. ``warning``: something works worse than it should. ``note``: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: a stable code, a sentence for people, and what to do about it."""

    code: str
    severity: Severity
    sentence: str
    cure: str

    @classmethod
    def error(cls, code: str, sentence: str, cure: str) -> Finding:
        return cls(code, Severity.ERROR, without_secrets(sentence), cure)

    @classmethod
    def warning(cls, code: str, sentence: str, cure: str) -> Finding:
        return cls(code, Severity.WARNING, without_secrets(sentence), cure)

    @classmethod
    def note(cls, code: str, sentence: str, cure: str) -> Finding:
        return cls(code, Severity.NOTE, without_secrets(sentence), cure)

    @property
    def record(self) -> Mapping[str, Any]:
        """The finding as JSON has it."""
        return {
            "severity": str(self.severity),
            "code": self.code,
            "sentence": self.sentence,
            "cure": self.cure,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings of one examination, the worst first. Notes leave the system good."""

    findings: Sequence[Finding]
    is_reachable: bool = True

    @property
    def is_good(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    @classmethod
    def of(cls, findings: Sequence[Finding], *, is_reachable: bool = True) -> Diagnosis:
        order = list(Severity)
        return cls(sorted(findings, key=lambda one: order.index(one.severity)), is_reachable)
