"""Where an error was raised, by its traceback: the file and the function, without the line.

Failures are grouped by it; a line number would begin a new group with every edit of the file above it.
"""

from __future__ import annotations

import re
from pathlib import PurePath

_FRAME = re.compile(r'^  File "([^"\n]+)", line \d+, in (\S+)', re.MULTILINE)
_FOREIGN = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ")
_OWN = "/windlass/"
LONGEST = 200


def place_of(traceback: str | None) -> str | None:
    """The last frame of the application's own code, or the last frame of all; None without a traceback."""
    frames = _FRAME.findall(traceback or "")
    if not frames:
        return None
    own = [
        frame for frame in frames if _OWN not in frame[0] and not any(part in frame[0] for part in _FOREIGN)
    ]
    path, function = (own or frames)[-1]
    return f"{PurePath(path).name}:{function}"[:LONGEST]
