"""Windlass: background jobs that run exactly once in effect, visibly, and fast."""
