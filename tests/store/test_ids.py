"""Job ids."""

from __future__ import annotations

import multiprocessing
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from windlass.store.ids import is_id, new_id, new_ids


def test_ids_are_uuid_version_seven_of_now() -> None:
    made = uuid.UUID(new_id())
    assert made.version == 7 and made.variant == uuid.RFC_4122
    assert abs((made.int >> 80) / 1000 - time.time()) < 2


def test_ids_of_one_process_rise_and_never_repeat() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(ids) and len(set(ids)) == len(ids)
    with ThreadPoolExecutor(4) as pool:
        many = [
            one for part in pool.map(lambda _: [new_id() for _ in range(5_000)], range(4)) for one in part
        ]
    assert len(set(many)) == len(many)


def test_many_ids_at_once_are_as_random_as_single_ones() -> None:
    ids = new_ids(5_000)
    assert len({made[19:] for made in [*ids, *(new_id() for _ in range(2_000))]}) == 7_000


def test_a_forked_child_has_random_digits_of_its_own() -> None:
    new_id()  # fetches random bytes, of which some are left
    with multiprocessing.get_context("fork").Pool(1) as pool:
        theirs = pool.apply(new_id)
    assert theirs[19:] != new_id()[19:]


def test_only_the_one_form_is_an_id() -> None:
    made = new_id()
    assert is_id(made)
    assert not any(is_id(text) for text in (made.upper(), made.replace("-", ""), "", "7", f"{{{made}}}"))
