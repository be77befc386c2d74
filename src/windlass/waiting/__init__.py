"""Waiting for the ends of jobs."""
