"""Duties that keep failing: logged once, shown in health, and forgotten when they work again.

One failure is not reported: a deadlock, a lock of another session, a restart of the database. A duty that fails each time is not done by this
instance, and if its cause is in the data, by none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from windlass.arguments.json_checks import explain
from windlass.errors import StoreUnreachableError
from windlass.observe import events
from windlass.observe.emit import emit
from windlass.observe.logger import get_logger

log = get_logger("windlass.upkeep")

T = TypeVar("T")
ENOUGH = 3
AWAY = "database"
"""Stands for all duties while the database does not answer: none of them is the cause."""


class Troubles:
    """Counts failures in a row, by duty. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[str, tuple[int, str]] = {}

    def attempt(self, name: str, is_due: bool, work: Callable[[], T]) -> T | None:
        """Do a part of a duty for itself: what goes wrong is noted here and costs the other parts nothing. Only a database that does not
        answer is raised: the others would wait for it, too. A part that has nothing to do is well: another instance did it."""
        if not is_due:
            self.worked(name)
            return None
        try:
            done = work()
        except StoreUnreachableError:
            raise
        except Exception as error:  # noqa: BLE001  the other parts run after any error
            self.failed(name, error)
            return None
        self.worked(name)
        return done

    def failed(self, name: str, error: Exception) -> None:
        """A duty failed again."""
        is_away = isinstance(error, StoreUnreachableError)
        if is_away:
            log.debug("%s has to wait: %s", name, error)
            name = AWAY
        with self._lock:
            times = self._failed.get(name, (0, ""))[0] + 1
            self._failed[name] = times, explain(error)
        if times == ENOUGH:
            emit(events.DUTY_FAILING, duty=name, times=times, error=events.problem(error))
        elif times == 1 and not is_away:
            log.warning("the duty %r failed; it is tried again later", name, exc_info=error)

    def worked(self, name: str) -> None:
        """Note that a duty was done; so the database answers."""
        if not self._failed:
            return
        with self._lock:
            over = {known: self._failed.pop(known, (0, ""))[0] for known in (name, AWAY)}
        for known, times in over.items():
            if times >= ENOUGH:
                emit(events.DUTY_WORKS, duty=known)

    def lines(self) -> list[str]:
        """For the instance's report: one line for each duty that keeps failing."""
        with self._lock:
            found = sorted(self._failed.items())
        return [
            f"duty {name}: failed {times} times running: {text}"
            for name, (times, text) in found
            if times >= ENOUGH
        ]
