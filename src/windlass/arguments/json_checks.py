"""Parsed JSON: what of it can be stored, and the name of the field that cannot.

Every refusal of a payload starts here, so all of them read alike: a path such as ``args.orders[3].price``, the problem,
the cure. Nothing here calls ``repr`` or ``str`` on the values: those may raise, or print a secret.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final, NoReturn

from windlass.errors import PayloadError, PayloadTooLargeError

# Wide enough for any id, hash or amount; short enough that parsing cannot be made slow (Python
# stops at 4,300).
MAX_INT_DIGITS: Final = 1_000
INT_BOUND: Final = 10**MAX_INT_DIGITS

HAS_EXPONENT: Final = re.compile(rb"\de\+?\d").search
_STRING_OR_EXPONENT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?e\+?\d+')

Path = tuple[str | int, ...]

AS_TEXT: Final = "pass it as text"
FLATTEN: Final = "flatten it, or store it elsewhere and pass a reference"
_NO_NUL: Final = "remove it, value.replace('\\x00', '')"
_NO_SURROGATE: Final = "replace it, value.encode('utf-8', 'replace').decode()"


def a_type(value: object) -> str:
    """The type of a value with its article: ``a str``, ``an int``."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def spell_floats(raw: bytes) -> bytes:
    """Write ``1e+22`` as ``10000000000000000000000.0``: jsonb drops exponents, and would return an integer.

    Not always an equal one: 5.861356761997038e+16 is the float 58613567619970384, but jsonb keeps the digits as written.
    """
    return _STRING_OR_EXPONENT.sub(_spell, raw) if HAS_EXPONENT(raw) else raw


def _spell(token: re.Match[bytes]) -> bytes:
    text = token[0]
    return text if text.startswith(b'"') else f"{Decimal(text.decode()):f}.0".encode()


def field_name(root: str, path: Path) -> str:
    """``args`` and ``("orders", 3, "price")`` → ``args.orders[3].price``; always short and printable."""
    parts = [root]
    for key in path:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif key.isidentifier() and len(key) <= 40:
            parts.append(f".{key}")
        else:
            shown = key if len(key) <= 40 else f"{key[:39]}…"
            parts.append(f"[{shown!a}]")
    name = "".join(parts)
    return name if len(name) <= 200 else f"{name[:120]}…{name[-60:]}"


MESSAGE = 1000
"""Characters of an exception's message that are kept: the advice of our own errors is at their end."""


def one_line(text: str, limit: int = 200) -> str:
    """The first line of a text, short and storable: messages about payloads are stored too. What is missing is counted at its end."""
    line = text.partition("\n")[0][:limit]
    missing = len(text.rstrip()) - len(line)
    shortened = f"{line}… ({missing:,} more characters)" if missing > 0 else line
    return shortened.encode("utf-8", "replace").decode().replace("\0", "\\0")


def explain(error: BaseException) -> str:
    """One line about an exception, even if its ``__str__`` raises."""
    try:
        text = one_line(str(error), MESSAGE)
    except BaseException:  # noqa: BLE001  the user's own __str__ raised, perhaps SystemExit
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def text_of(value: object) -> str:
    """A text as it is; anything else as one line of it, even if its ``__str__`` raises: an exception given for a message, a number for
    a code."""
    if isinstance(value, str):
        return value
    if isinstance(value, BaseException):
        return explain(value)
    try:
        return one_line(str(value), MESSAGE)
    except BaseException:  # noqa: BLE001  the user's own __str__ raised, perhaps SystemExit
        return type(value).__name__


class TreeInspector:
    """Checks one JSON document; the first word of ``what`` is the root of the field names, ``verdict`` what a refusal says of it."""

    def __init__(self, what: str, max_depth: int, *, verdict: str = "cannot be stored") -> None:
        self.what, self.root, self.max_depth, self.verdict = what, what.partition(" ")[0], max_depth, verdict

    def refuse(
        self, path: Path, problem: str, cure: str, kind: type[PayloadError] = PayloadError
    ) -> NoReturn:
        # `from None`: pydantic's errors quote the values, which may be secrets, and would be logged with ours.
        raise kind(self.what, field_name(self.root, path), problem, cure, verdict=self.verdict) from None

    def check_tree(self, tree: Any, path: Path = (), depth: int = 0) -> None:
        """Refuse NaN, infinities, NUL, lone surrogates, over-long integers and depth in a parsed JSON document."""
        if isinstance(tree, dict | list):
            if depth >= self.max_depth:
                self.too_deep(path)
            steps = tree.items() if isinstance(tree, dict) else enumerate(tree)
            for step, child in steps:
                if isinstance(step, str):
                    self.check_text(step, (*path, step), "is a key that")
                self.check_tree(child, (*path, step), depth + 1)
        elif isinstance(tree, str):
            self.check_text(tree, path)
        elif isinstance(tree, float):
            if tree - tree != 0.0:
                self.not_finite(path)
        elif isinstance(tree, int):
            self.check_int(tree, path)

    def check_text(self, text: str, path: Path, prefix: str = "") -> None:
        if "\0" in text:
            self.refuse(path, f"{prefix} contains a NUL character".lstrip(), _NO_NUL)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.refuse(
                path, f"{prefix} contains a lone surrogate, which is not text".lstrip(), _NO_SURROGATE
            )

    def check_int(self, number: int, path: Path) -> None:
        if not -INT_BOUND < number < INT_BOUND:
            self.refuse(path, f"is an integer of more than {MAX_INT_DIGITS:,} digits", AS_TEXT)

    def not_finite(self, path: Path) -> NoReturn:
        self.refuse(path, "is NaN or infinite, which JSON has no number for", "use None, or " + AS_TEXT)

    def too_deep(self, path: Path) -> NoReturn:
        problem = f"is nested deeper than {self.max_depth} levels"
        self.refuse(path, problem, FLATTEN, PayloadTooLargeError)
