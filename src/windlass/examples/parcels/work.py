"""The work of each phase of a parcel."""

from __future__ import annotations

import time
import zlib
from typing import Any

from windlass.examples.parcels.orders import IMPOSSIBLE

SECONDS = 0.015


class AddressUnknownError(Exception):
    """The address of a parcel does not exist."""


def pack(args: dict[str, Any]) -> dict[str, Any]:
    """Choose a box; returns its size."""
    time.sleep(SECONDS)
    return {"box": len(args["address"]) % 4}


def ship(args: dict[str, Any]) -> str:
    """Ship the parcel; returns its tracking number."""
    time.sleep(SECONDS)
    if args["address"] == IMPOSSIBLE:
        raise AddressUnknownError(f"no such address: {args['address']}")
    return f"track-{zlib.crc32(args['address'].encode()):08x}"
