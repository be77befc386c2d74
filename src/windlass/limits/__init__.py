"""Limits: how many jobs of a key run at once, and how many start in a period."""
