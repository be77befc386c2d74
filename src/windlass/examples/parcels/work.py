"""What happens to a parcel."""

from __future__ import annotations

import time
import zlib
from typing import Any

from windlass.examples.parcels.orders import IMPOSSIBLE

SECONDS = 0.015


class AddressUnknownError(Exception):
    """Nobody can ship to where this parcel should go."""


def pack(args: dict[str, Any]) -> dict[str, Any]:
    """Choose a box; answers its size."""
    time.sleep(SECONDS)
    return {"box": len(args["address"]) % 4}


def ship(args: dict[str, Any]) -> str:
    """Hand the parcel over; answers its tracking number."""
    time.sleep(SECONDS)
    if args["address"] == IMPOSSIBLE:
        raise AddressUnknownError(f"no such address: {args['address']}")
    return f"track-{zlib.crc32(args['address'].encode()):08x}"
