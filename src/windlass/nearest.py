"""A hint at what was probably meant by a name that nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str], alike: float = 0.6) -> str:
    """``; did you mean lease?``, to put behind what is allowed; empty where nothing is as much alike as that (1 is the same)."""
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=alike)
    return f"; did you mean {near[0]}?" if near else ""
