"""Job ids: UUID version 7, made by the caller's side so that an id is known before the commit.

Within one process they rise strictly, which keeps the order of jobs enqueued in one call; between machines they are
only roughly in order (clocks differ), so nothing but locality and tie-breaks may rest on it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0
_NOISE = 4096
"""Random bytes that are fetched at once: a call of the system for each id makes the thread give up the interpreter's lock."""
_noise = ""

SMALLEST = "00000000-0000-0000-0000-000000000000"
LARGEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def _begin_anew() -> None:
    """In a forked child: a thread of the parent may hold the lock, and the parent uses the random bytes."""
    global _lock, _noise
    _lock = threading.Lock()
    _noise = ""


os.register_at_fork(after_in_child=_begin_anew)


def new_id() -> str:
    """A new UUID v7 as text: milliseconds, then a 12-bit fraction that also serves as a counter, then 62 random bits."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """Many new ids, rising; one call for all of them costs a quarter."""
    global _last, _noise
    size = 16 * count
    # 1/4096 ms is the resolution of the time part; two ids of one process never share it.
    stamp = time.time_ns() * 4096 // 1_000_000
    with _lock:
        first = max(stamp, _last + 1)
        _last = first + count - 1
        if len(_noise) < size:
            _noise = os.urandom(max(_NOISE, 8 * count)).hex()
        noise, _noise = _noise[:size], _noise[size:]
    made = []
    for number in range(count):
        digits, random_part = f"{first + number:015x}", noise[16 * number : 16 * number + 16]
        variant = _VARIANT[random_part[0]]
        made.append(
            f"{digits[:8]}-{digits[8:12]}-7{digits[12:]}-{variant}{random_part[1:4]}-{random_part[4:]}"
        )
    return made


def first_at(seconds: float) -> str:
    """The text that is in the order of ids before all ids made from a time on, in seconds since 1970."""
    stamp = min(max(0, int(seconds * 1000)), 0xFFFF_FFFF_FFFF)
    digits = f"{stamp:012x}"
    return f"{digits[:8]}-{digits[8:]}-{SMALLEST[14:]}"


_VARIANT = {digit: "89ab"[number % 4] for number, digit in enumerate("0123456789abcdef")}


def is_id(text: str) -> bool:
    """Whether a text is a UUID in the one form the store uses (lower case, with dashes)."""
    try:
        return str(uuid.UUID(text)) == text
    except (ValueError, AttributeError, TypeError):
        return False
