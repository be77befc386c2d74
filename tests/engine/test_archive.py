"""The file of the archive: every line is whole, whatever a power cut left."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conformance.life import every_job
from tests.conformance.test_prune import ended
from windlass.clock import ManualClock
from windlass.features import Store
from windlass.model import Retention
from windlass.upkeep.archive import BLOCK, ArchiveFile

DAY = timedelta(days=1)
KEEP = Retention(completed=DAY, failed=None, cancelled=None)
BEFORE = '{"id": "before"}\n'


def ids(file: Path) -> list[str]:
    text = file.read_text("utf-8")
    assert text.endswith("\n")
    return [json.loads(line)["id"] for line in text.splitlines()]


def prune_into(store: Store, file: Path) -> int:
    with ArchiveFile(file) as archive:
        return store.upkeep.prune(KEEP, archive=archive.append, page=2)


@pytest.mark.parametrize("before", ["", BEFORE, 2 * BEFORE])
@pytest.mark.parametrize(
    "half",
    [
        b"{",
        b'{"id": "half", "args": {"text": "gr\xc3',
        b'{"id": "half"' + bytes(512),
        b'{"id": "half", "args": "' + b"x" * (BLOCK - len(BEFORE) - 24),
        b'{"id": "half", "args": "' + b"x" * 3 * BLOCK,
    ],
    ids=["a byte", "half a letter", "zeros", "a block", "several blocks"],
)
def test_half_a_line_is_cut_off_before_the_next_one(
    store: Store, clock: ManualClock, tmp_path: Path, before: str, half: bytes
) -> None:
    """Its job is still in the database: the removal commits after the line is on disk."""
    jobs = ended(store, "completed", 3)
    clock.advance(2 * DAY)
    file = tmp_path / "old.jsonl"
    file.write_bytes(before.encode() + half)
    assert prune_into(store, file) == 3
    assert ids(file) == [*["before"] * before.count("\n"), *sorted(jobs)]
    assert every_job(store) == []


def test_a_whole_line_without_its_end_is_kept(store: Store, clock: ManualClock, tmp_path: Path) -> None:
    """Its job may be gone: a line that was written and synced has lost its newline in an editor."""
    jobs = ended(store, "completed", 1)
    clock.advance(2 * DAY)
    file = tmp_path / "old.jsonl"
    file.write_text(BEFORE.rstrip())
    prune_into(store, file)
    assert ids(file) == ["before", *jobs]


def test_a_page_that_a_power_cut_left_half_written_is_written_again(
    store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    """The cut comes between the write and the removal, and tears the second of two lines."""
    jobs = sorted(ended(store, "completed", 2))
    clock.advance(2 * DAY)
    file = tmp_path / "old.jsonl"

    class PowerCut(BaseException):
        pass

    with ArchiveFile(file) as archive, pytest.raises(PowerCut):

        def append(page) -> None:
            archive.append(page)
            raise PowerCut

        store.upkeep.prune(KEEP, archive=append)
    file.write_bytes(file.read_bytes()[:-10])
    assert prune_into(store, file) == 2
    assert ids(file) == [jobs[0], *jobs]
