"""Pages and models over HTTP, for the examples ``visibility`` and ``summaries``."""
