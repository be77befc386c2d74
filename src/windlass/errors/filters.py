"""The error of a filter that cannot be read."""

from __future__ import annotations

from windlass.errors.base import ConfigError

SHOWN = 200


class FilterError(ConfigError):
    """A filter text that cannot be read. ``position`` is the offset of the wrong part in the text, from 0, and ``length`` how many characters it
    has; ``found`` says what is there, ``allowed`` what may be there, and ``cure`` what to write instead.
    """

    code = "filter"

    def __init__(self, text: str, position: int, length: int, found: str, allowed: str, cure: str) -> None:
        self.text, self.position, self.length = text, position, length
        self.found, self.cure = found, cure
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        super().__init__(
            "filter", shown, because=f"character {position + 1}: {found}; it must be {allowed}. {cure}"
        )
        self.allowed = allowed

    @property
    def pointer(self) -> str:
        """Two lines: the text, and marks under the wrong part. Characters that are not printable are shown as dots."""
        line = "".join(sign if sign.isprintable() else "·" for sign in self.text)
        return f"{line}\n{' ' * self.position}{'^' * max(1, self.length)}"
