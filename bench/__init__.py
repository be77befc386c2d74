"""Measurements: ratios in one run, never a timed test. Run by ``./dev bench NAME``."""
