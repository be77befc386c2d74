"""The text of ``windlass top``: lines of a screen, made of a sample."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from windlass.cli.control import span
from windlass.observe.safe_text import escaped

if TYPE_CHECKING:
    from windlass.control.instances import InstanceView, PhaseView
    from windlass.control.overview_sample import Sample

MOST_CELLS = 20
"""Processors of a phase that have a cell each; more of them share the cells."""
AVERAGED = 10
"""Samples over which rates are averaged."""
HEAD = ("PHASE", "PROCESSORS", "QUEUED", "OLDEST", "PROCESSING", "WAITING", "DONE/S", "FAILED", "STATE")
TITLE = "windlass top"
KEYS = "q quit   j/k or arrows: choose a phase   g/G: first/last"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The cells of processors."""

    busy: str = "▓"
    idle: str = "·"
    error: str = "✗"
    held: str = "‖"
    lost: str = "?"


UNICODE, ASCII = Glyphs(), Glyphs("#", ".", "x", "|", "?")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the screen: plain, ``bold``, ``chosen`` or ``alarm``."""

    text: str
    style: str = "plain"


@dataclass(slots=True)
class Board:
    """What is shown: the database, the newest sample, the chosen phase, and rates of the last samples."""

    database: str
    glyphs: Glyphs = UNICODE
    sample: Sample | None = None
    chosen: int = 0
    _rates: dict[str, deque[float]] = field(default_factory=dict)

    def add(self, sample: Sample) -> None:
        """Show this sample from now on."""
        self.sample = sample
        for name, phase in sample.phases.items():
            self._rates.setdefault(name, deque(maxlen=AVERAGED)).append(phase.per_second)

    @property
    def names(self) -> Sequence[str]:
        """The phases, in the order of the screen."""
        if self.sample is None:
            return []
        served = {phase.name for one in self.sample.instances for phase in one.phases}
        return sorted({*self.sample.phases, *served})

    def move(self, by: int) -> None:
        """Choose another phase."""
        self.chosen = min(max(0, self.chosen + by), max(0, len(self.names) - 1))

    def lines(self, width: int, height: int, age: float) -> list[Line]:
        """The screen. ``age`` is how many seconds ago the sample was read."""
        if self.sample is None:
            return _fit(
                [Line(TITLE, "bold"), Line(self.database), Line("waits for the first sample ...")],
                width,
                height,
            )
        rows = [HEAD, *(self._row(name) for name in self.names)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        table = [_aligned(row, widths) for row in rows]
        head = [Line(self._summary(age), "alarm" if age > 3 else "bold"), Line(self.database), Line("")]
        room = max(1, height - len(head) - 2)
        detail = list(self._detail())[: max(0, room // 2)]
        shown = max(1, room - len(detail) - (1 if detail else 0))
        first = max(0, min(self.chosen - shown + 1, len(table) - 1 - shown))
        body = [Line(table[0], "bold")]
        body += [
            Line(text, "chosen" if number == self.chosen else "plain")
            for number, text in enumerate(table[1:][first : first + shown], first)
        ]
        if len(table) == 1:
            body.append(Line("no phase has a job, and no instance serves any"))
        lines = [*head, *body, *([Line("")] if detail else []), *detail]
        lines = lines[: max(0, height - 1)]
        lines += [Line("")] * (height - 1 - len(lines))
        return _fit([*lines, Line(KEYS)], width, height)

    def _summary(self, age: float) -> str:
        assert self.sample is not None
        counts = [phase.counts for phase in self.sample.phases.values()]
        alive = [one for one in self.sample.instances if one.is_alive]
        lost = sum(one.state == "lost" for one in self.sample.instances)
        served = [phase for one in alive for phase in one.phases]
        parts = [
            TITLE,
            f"{self.sample.at:%H:%M:%S} UTC",
            f"instances {len(alive)}" + (f", {lost} lost" if lost else ""),
            f"queued {sum(one.queued for one in counts):,}",
            f"running {sum(one.busy for one in served):,}/{sum(one.size for one in served):,}",
            f"{sum(map(self._rate, self.names)):.1f}/s",
        ]
        if age > 3:
            parts.append(f"no new data for {age:.0f} s")
        return "   ".join(parts)

    def _rate(self, name: str) -> float:
        rates = self._rates.get(name)
        return sum(rates) / len(rates) if rates else 0.0

    def _row(self, name: str) -> tuple[str, ...]:
        assert self.sample is not None
        found = self.sample.phases.get(name)
        served = list(self._serving(name))
        queued = oldest = running = waiting = failed = ""
        if found is not None:
            counts = found.counts
            queued, running = f"{counts.queued:,}", f"{counts.processing:,}"
            waiting, failed = f"{counts.waiting + counts.scheduled:,}", f"{counts.failed:,}"
            oldest = span(found.oldest) if counts.queued else ""
        rate = f"{self._rate(name):.1f}"
        return (
            escaped(name),
            cells([phase for _, phase in served], self.glyphs),
            queued,
            oldest,
            running,
            waiting,
            rate,
            failed,
            self._state(name, [phase for _, phase in served]),
        )

    def _state(self, name: str, served: Sequence[PhaseView]) -> str:
        assert self.sample is not None
        found = self.sample.phases.get(name)
        if found is not None and found.is_paused:
            return "paused"
        if not served:
            open_jobs = found is not None and (found.counts.queued or found.counts.processing)
            return "no instance" if open_jobs else ""
        held = sorted({phase.held_by for phase in served if phase.held_by})
        if held:
            return f"held by {escaped(', '.join(held))}"
        size = sum(phase.size for phase in served)
        return "all busy" if size and sum(phase.busy for phase in served) >= size else ""

    def _serving(self, name: str) -> Iterator[tuple[InstanceView, PhaseView]]:
        assert self.sample is not None
        for one in self.sample.instances:
            if one.is_alive:
                yield from ((one, phase) for phase in one.phases if phase.name == name)

    def _detail(self) -> Iterator[Line]:
        """The instances of the chosen phase, with the jobs of their processors."""
        assert self.sample is not None
        if not self.names:
            return
        name = self.names[min(self.chosen, len(self.names) - 1)]
        for one, phase in self._serving(name):
            where = f"{escaped(one.host) or '?'} pid {one.pid or '?'}"
            queue = f"   {phase.queue} in memory" if phase.queue else ""
            yield Line(
                f"{escaped(name)} on {where}   {one.state}   {cells([phase], self.glyphs)}{queue}", "bold"
            )
            for item in one.running:
                if str(item.get("name", "")).startswith(f"{name}-processor-"):
                    yield Line(_processor(item, self.sample.at))
        for one in self.sample.instances:
            if one.state == "lost":
                yield Line(f"lost: {escaped(one.host) or '?'} pid {one.pid or '?'}   {one.id}", "alarm")


def cells(served: Sequence[PhaseView], glyphs: Glyphs) -> str:
    """A cell for each processor of a phase: first those in error, then the busy ones, then the idle ones."""
    size = sum(phase.size for phase in served)
    error = min(sum(phase.error for phase in served), size)
    busy = min(sum(phase.busy for phase in served), size - error)
    idle = glyphs.held if served and all(phase.held_by for phase in served) else glyphs.idle
    if size <= MOST_CELLS:
        return glyphs.error * error + glyphs.busy * busy + idle * (size - error - busy)
    part = MOST_CELLS / size
    red = math.ceil(error * part)
    full = min(MOST_CELLS - red, math.ceil(busy * part))
    bar = glyphs.error * red + glyphs.busy * full + idle * (MOST_CELLS - red - full)
    return f"{bar} {busy + error}/{size}"


def _processor(item: Mapping[str, Any], now: datetime) -> str:
    name, state, job = (escaped(str(item.get(key) or "")) for key in ("name", "state", "job"))
    since = item.get("since")
    lasts = f"for {span(max(0.0, (now - datetime.fromisoformat(since)).total_seconds()))}" if since else ""
    return f"  {name:<28} {state:<6} {job:<37} {lasts}".rstrip()


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    left = (0, 1, len(row) - 1)
    padded = (
        text.ljust(width) if column in left else text.rjust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _fit(lines: Sequence[Line], width: int, height: int) -> list[Line]:
    return [Line(line.text[: max(0, width - 1)], line.style) for line in lines[:height]]
