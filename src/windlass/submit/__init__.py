"""Submitting jobs: from a call of ``enqueue`` to rows in the database."""
