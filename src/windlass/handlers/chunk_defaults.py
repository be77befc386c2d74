"""The chunk size and the chunk retries of loops that give none of their own."""

from __future__ import annotations

from functools import cached_property

from windlass.model.retry import RetryPolicy, linear
from windlass.settings import Settings


class ChunkDefaults:
    """The settings ``background.chunk`` of an instance: records a chunk, and a linear policy."""

    def __init__(self, size: int, attempts: int, step: float) -> None:
        self.size = size
        self.attempts = attempts
        self.step = step

    @classmethod
    def of(cls, settings: Settings) -> ChunkDefaults:
        return cls(settings.chunk_size, settings.chunk_attempts, settings.chunk_step)

    @property
    def facts(self) -> tuple[int, int, float]:
        """The arguments that make the same object in another process."""
        return self.size, self.attempts, self.step

    @cached_property
    def retry(self) -> RetryPolicy:
        """The policy of chunks whose loop and phase have none."""
        return linear(self.attempts, step=self.step)


CHUNK_DEFAULTS = ChunkDefaults.of(Settings())
"""The defaults of contexts without an instance."""
