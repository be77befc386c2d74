"""What a step claims, as columns in PostgreSQL's text form: the driver needs several calls for each list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from windlass.model import Want
from windlass.store.jobs.low_water import LANES, as_text
from windlass.store.jobs.outcome_rows import column, quoted


def claim_columns(wants: Sequence[Want], marks: Sequence[datetime | None]) -> dict[str, str]:
    """What is wanted of each phase; ``marks`` has one for each lane of each phase."""
    names, limits, startings, quiets, suspects, starts = [], [], [], [], [], []
    for place, want in enumerate(wants):
        if not want.limit:
            continue
        names.append(quoted(want.phase))
        limits.append(str(want.limit))
        startings.append(str(want.limit if want.starting is None else max(0, want.starting)))
        quiets.append(str(want.quiet.total_seconds()))
        suspects.append("t" if want.suspects else "f")
        starts += as_text(marks[place * LANES :][:LANES])
    return {
        "phases": column(names),
        "limits": column(limits),
        "startings": column(startings),
        "quiets": column(quiets),
        "suspects": column(suspects),
        "marks": column(starts),
    }
