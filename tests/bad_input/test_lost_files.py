"""A SQLite file that is deleted, moved or replaced while a store has it open: nobody writes into, or reads, a file that is nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.life import claim_one, enqueue, one
from windlass.errors import StoreUnreachableError
from windlass.features import Store, open_store
from windlass.model import NewJob

pytestmark = pytest.mark.timing


def _delete(path: Path) -> None:
    for file in path.parent.glob("jobs.db*"):
        file.unlink()


def _move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def _move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def _restore(path: Path) -> None:
    """As from a backup: written beside it, then renamed over it."""
    copy = path.with_name("backup.db")
    shutil.copyfile(path, copy)
    copy.replace(path)


LOSSES = [_delete, _move, _move_folder, _restore]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder / "jobs.db"


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_file_takes_no_more_jobs(path: Path, lose: Callable[[Path], None]) -> None:
    with open_store(f"sqlite:///{path}") as store:
        one(store)
        lose(path)
        was_there = path.exists()
        for _ in range(2):
            with pytest.raises(StoreUnreachableError, match=f"{path} was .* nothing was stored") as caught:
                store.enqueue([NewJob(kind="work")])
            assert "estart the process" in str(caught.value)
        assert path.exists() == was_there


@pytest.mark.parametrize("lose", LOSSES)
def test_a_lost_file_is_not_read_and_none_is_made(path: Path, lose: Callable[[Path], None]) -> None:
    """On a thread that read before and on one that did not, by a listener and in a handler's transaction."""
    with open_store(f"sqlite:///{path}") as store, ThreadPoolExecutor(1) as threads:
        one(store)
        holder = store.join()
        lease = claim_one(holder)
        assert store.phases.counts()
        lose(path)
        was_there = path.exists()

        def begin() -> None:
            with holder.transaction(lease):
                raise AssertionError("it has begun")

        for look in (store.phases.counts, store.db.listen, store.upkeep.maintain, begin):
            for call in (look, threads.submit(look).result):
                with pytest.raises(StoreUnreachableError, match=str(path)):
                    call()
        assert path.exists() == was_there


def test_a_transaction_that_is_open_when_the_file_goes_is_not_committed(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        one(store)
        holder = store.join()
        lease = claim_one(holder)
        aside = path.with_name("aside.db")
        with pytest.raises(StoreUnreachableError, match="deleted or moved"), holder.transaction(lease) as tx:
            tx.complete()
            path.rename(aside)
        aside.rename(path)
        assert store.jobs.get(lease.id).state == "processing"


def test_a_file_that_is_put_back_is_used_again(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        first = one(store)
        aside = path.with_name("aside.db")
        path.rename(aside)
        with pytest.raises(StoreUnreachableError):
            one(store)
        aside.rename(path)
        second = one(store)
        assert {job.id for job in store.jobs.list().jobs} == {first, second}


def test_who_opens_the_store_anew_uses_what_is_there(path: Path) -> None:
    """No file: a new one, as ever."""
    with open_store(f"sqlite:///{path}") as old:
        one(old)
        _delete(path)
        with open_store(f"sqlite:///{path}") as new:
            made = one(new)
            with pytest.raises(StoreUnreachableError, match="replaced by another file"):
                one(old)
            assert [job.id for job in new.jobs.list().jobs] == [made]


def test_a_link_that_leads_elsewhere_is_noticed(path: Path) -> None:
    first, second = path.with_name("first.db"), path.with_name("second.db")
    for file in (first, second):
        open_store(f"sqlite:///{file}").close()
    path.symlink_to(first)
    with open_store(f"sqlite:///{path}") as store:
        enqueue(store)
        path.unlink()
        path.symlink_to(second)
        with pytest.raises(StoreUnreachableError, match="replaced by another file"):
            enqueue(store)


def test_another_current_folder_is_no_loss(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with open_store("sqlite:///jobs.db") as store:
        monkeypatch.chdir("/")
        made = one(store)
        assert _ids_on_a_new_thread(store) == [made]
        assert path.exists()


def _ids_on_a_new_thread(store: Store) -> list[str]:
    with ThreadPoolExecutor(1) as threads:
        return [job.id for job in threads.submit(store.jobs.list).result().jobs]
