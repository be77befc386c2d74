"""Many plain jobs at once, streamed to the database as lines of COPY's text form: tabs between fields, ``\\N`` for NULL.

Jobs that differ in nothing but their arguments need not be requests of their own, and their arguments may be written while the database
takes in those before: 51k -> 150k jobs/s at a thousand a call. That happens inside the transaction, on a connection of the pool, so only
where no code of the application's is run by it: a validator may be slow, and may want a connection itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from windlass.model import HIGHEST_PRIORITY, Enqueued, Json, NewJob
from windlass.store.ids import new_ids
from windlass.store.jobs.checked import CheckedJob
from windlass.store.jobs.rows import created_results

CHUNK = 50
_COMMON = [field.name for field in fields(NewJob) if field.name != "args"]
# JSON has no raw line breaks or tabs but between its tokens, where a blank does as well; a line may have none.
_ONE_LINE = str.maketrans("\n\r\t", "   ")


@dataclass(frozen=True, slots=True)
class SameKindJobs:
    """Jobs that are like ``job`` but for their arguments: what ``encode`` makes of each call, checked and as JSON. ``may_wait`` says that
    this may be done when the database is ready for it."""

    job: NewJob
    calls: Sequence[Any]
    encode: Callable[[Any], str]
    may_wait: bool = True

    def jobs(self) -> list[NewJob]:
        """A request for each job."""
        others = {name: getattr(self.job, name) for name in _COMMON}  # replace() takes twice as long
        return [NewJob(args=Json(self.encode(call)), **others) for call in self.calls]

    def encoded(self) -> SameKindJobs:
        """These jobs with all arguments encoded now, by this thread."""
        return SameKindJobs(self.job, [self.encode(call) for call in self.calls], str)


class CopyStream:
    """The lines of jobs that are alike, made while they are sent; may be read again from the beginning."""

    def __init__(self, alike: SameKindJobs) -> None:
        self._job, self._calls, self._encode = alike.job, alike.calls, alike.encode
        self._ids: list[str] = []
        self._args: list[str] = []
        self.results: list[Enqueued] = []
        if not alike.may_wait:
            self._make(len(self._calls))

    def _make(self, count: int) -> None:
        """Have ids and arguments of at least so many jobs."""
        calls, encode = self._calls[len(self._args) : count], self._encode
        self._args += [encode(call) for call in calls]
        self._ids += new_ids(len(calls))

    def lines(self, tail: str, *, flags: int = 0) -> Iterator[str]:
        """Chunks of whole lines, each ending with ``tail``."""
        middle, self.results = _fields(self._job, self._job.phase or self._job.kind, flags), []
        for start in range(0, len(self._calls), CHUNK):
            end = start + CHUNK
            self._make(end)
            ids, args = self._ids[start:end], [_json_field(text) for text in self._args[start:end]]
            yield "".join([f"{job}{middle}{text}{tail}" for job, text in zip(ids, args, strict=True)])
            self.results += created_results(ids)

    def all(self) -> Iterator[tuple[str, str]]:
        """Id and arguments of each job, whether it was sent or not."""
        self._make(len(self._calls))
        return zip(self._ids, self._args, strict=True)


def lines_of(entries: Sequence[CheckedJob], flags: Mapping[str, int], tail: str) -> str:
    """Lines of plain jobs of any kind; ``flags`` are those that jobs get by their kind."""
    return "".join(
        [
            f"{entry.id}{_fields(entry.job, entry.phase, flags.get(entry.job.kind, 0), entry.id)}{_json_field(entry.args)}{tail}"
            for entry in entries
        ]
    )


def phases_json(counts: dict[str, int], loud: set[str]) -> str:
    """The phases of a bulk enqueue as JSON: how many jobs each gets, and whether it is notified."""
    return json.dumps([{"phase": phase, "n": n, "notify": phase in loud} for phase, n in counts.items()])


def _fields(job: NewJob, phase: str, flags: int, own_id: str = "") -> str:
    """All fields of a line between the id and the arguments."""
    correlation = job.correlation_id
    return "\t".join(
        [
            "",
            str(HIGHEST_PRIORITY - job.priority),
            str(job.max_attempts),
            str(flags),
            _escaped(job.kind),
            _escaped(phase),
            "\\N" if correlation is None or correlation == own_id else _escaped(str(correlation)),
            "",
        ]
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\") if "\\" in text else text


def _json_field(args: str) -> str:
    """JSON as a field."""
    if "\\" in args:
        args = args.replace("\\", "\\\\")
    if "\n" in args or "\t" in args or "\r" in args:
        args = args.translate(_ONE_LINE)
    return args
