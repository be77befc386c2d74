"""Unique keys: idempotent submitting, debounce and throttle."""
