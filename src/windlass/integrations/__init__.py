"""Windlass inside web frameworks; each module is for one of them and imports nothing of the others."""
