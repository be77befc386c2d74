"""Principals: on whose authority a job runs, and the tokens kept for it."""
