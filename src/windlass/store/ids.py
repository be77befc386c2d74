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

SMALLEST = "00000000-0000-0000-0000-000000000000"
LARGEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def new_id() -> str:
    """A new UUID v7 as text: milliseconds, then a 12-bit fraction that also serves as a counter, then 62 random bits."""
    global _last
    # 1/4096 ms is the resolution of the time part; two ids of one process never share it.
    stamp = time.time_ns() * 4096 // 1_000_000
    with _lock:
        stamp = _last = max(stamp, _last + 1)
    high = ((stamp >> 12) << 16) | 0x7000 | (stamp & 0xFFF)
    low = (int.from_bytes(os.urandom(8), "big") & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000
    text = f"{high:016x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Whether a text is a UUID in the one form the store uses (lower case, with dashes)."""
    try:
        return str(uuid.UUID(text)) == text
    except (ValueError, AttributeError, TypeError):
        return False
