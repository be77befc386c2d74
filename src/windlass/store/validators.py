"""Checks names, labels and numbers before they reach a database."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeGuard

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
NAME_RULE = "a name of 1 to 200 letters, digits, or _ . : / - that begins with no sign"
MAX_ATTEMPTS = 32_000
MAX_LABEL = 255
LONGEST_DELAY = timedelta(days=36_500)


def is_name(text: object) -> bool:
    return isinstance(text, str) and bool(_NAME.fullmatch(text))


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text that a database can store: without NUL and lone surrogates."""
    return isinstance(value, str) and not _NO_TEXT.search(value)


def is_label(text: object) -> bool:
    return isinstance(text, str) and 1 <= len(text) <= MAX_LABEL and text.isprintable()
