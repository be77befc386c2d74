"""Prunes by the retention that the settings have: a page at a time, beside everything else that the database has to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from windlass.errors import WindlassError
from windlass.features import Store
from windlass.model import Retention
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.settings import Settings
from windlass.store.database import never
from windlass.store.ids import new_id
from windlass.store.jobs.pruning import Pruning
from windlass.upkeep.archive import ArchiveFile

TURN = "prune"
HOLD = 60.0
"""Seconds after which another instance goes on if the one that prunes does not; renewed between pages."""
SHORTEST, LONGEST = 10.0, 3600.0
"""Seconds between two passes, of all instances together: a tenth of the shortest retention, within these bounds."""
PAGE = 500
REST = 4.0
"""After each page the instance rests this many times as long as the page took: its jobs use the same interpreter and the same database."""


class Pruner:
    """Removes ended jobs that are past their retention: a duty of every instance, done by one at a time.

    Without a retention there is nothing to do (``is_needed``). ``is_stopping`` says that the instance is stopping: a run ends after its page.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        is_stopping: Callable[[], bool] = never,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upkeep = store.upkeep
        self._keep = retention_of(settings)
        self._path = None if settings.retention_archive is None else Path(settings.retention_archive)
        self._is_stopping = is_stopping
        self._monotonic = monotonic
        self._pass: Pruning | None = None
        self._archive: ArchiveFile | None = None
        self._holder = ""
        self._began = self._taken_at = 0.0
        lasting = [
            lasts
            for lasts in (self._keep.completed, self._keep.failed, self._keep.cancelled)
            if lasts is not None
        ]
        self.is_needed = bool(lasting)
        shortest = min((lasts.total_seconds() for lasts in lasting), default=LONGEST)
        self.pause = min(LONGEST, max(SHORTEST, shortest / 10))
        """Seconds between two passes."""
        self.every = min(self.pause, HOLD)
        """Seconds between two checks whose turn it is."""

    def announce(self) -> None:
        """Log what will be pruned."""
        given = asdict(self._keep)
        if self.is_needed:
            kept = [f"{state} jobs {_shown(lasts)}" for state, lasts in given.items()]
            text = f"keeps {', '.join(kept)}; older ones are pruned"
            text += f", and appended to {self._path} first" if self._path else ""
        else:
            text = "keeps all ended jobs: retention.completed, retention.failed and retention.cancelled are not set"
        seconds = {state: lasts and lasts.total_seconds() for state, lasts in given.items()}
        emit(events.RETENTION, text, **seconds, archive=self._path and str(self._path))

    def run(self) -> float | None:
        """Prune a page if it is this instance's turn; returns the seconds until the next page, None if there is none."""
        began = self._monotonic()
        if not self._has_turn(began):
            return None
        try:
            work = self._pass or self._begin(began)
            work.step()
        except BaseException:
            self.close()
            raise
        if work.is_over:
            self._finish(work)
            return None
        return REST * (self._monotonic() - began)

    def _has_turn(self, now: float) -> bool:
        """Whether this instance may prune now. A pass whose turn another instance has taken is left to that one."""
        if self._pass is not None and now - self._taken_at < HOLD / 3:
            return True
        holder = self._holder if self._pass is not None else new_id()
        if not self._upkeep.take_turn(TURN, holder, HOLD):
            self.close()
            return False
        self._holder, self._taken_at = holder, now
        return True

    def _begin(self, now: float) -> Pruning:
        if self._path is not None:
            try:
                self._archive = ArchiveFile(self._path)
            except OSError as error:
                raise WindlassError(
                    f"the archive {self._path} cannot be opened ({error.strerror}), so nothing is pruned; "
                    "correct retention.archive, or create its folder"
                ) from error
        append = None if self._archive is None else self._archive.append
        self._pass = self._upkeep.pruning(
            self._keep, archive=append, page=PAGE, is_stopping=self._is_stopping
        )
        self._began = now
        return self._pass

    def _finish(self, work: Pruning) -> None:
        if work.removed:
            archived = None if self._archive is None else self._archive.written
            where = "" if archived is None else f"; {archived:,} were archived"
            seconds = round(self._monotonic() - self._began, 3)
            emit(events.PRUNED, where, removed=work.removed, archived=archived, seconds=seconds)
        self.close()
        self._upkeep.take_turn(TURN, self._holder, self.pause)  # no instance needs to scan again before that

    def close(self) -> None:
        """Leave the pass and close the archive; on the thread of ``run``. What the pass has removed is removed; the turn ends by itself."""
        if self._archive is not None:
            self._archive.close()
        self._pass = self._archive = None


def retention_of(settings: Settings) -> Retention:
    """How long ended jobs stay by the settings."""

    def lasts(seconds: float | None) -> timedelta | None:
        return None if seconds is None else timedelta(seconds=seconds)

    return Retention(
        completed=lasts(settings.retention_completed),
        failed=lasts(settings.retention_failed),
        cancelled=lasts(settings.retention_cancelled),
    )


def _shown(lasts: timedelta | None) -> str:
    if lasts is None:
        return "for ever"
    seconds = lasts.total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"for {seconds / size:g} {unit}"
    return f"for {seconds:g} s"
