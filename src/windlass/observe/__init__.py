"""Logs, metrics and health of a running instance. Reads plain reports and never uses the engine."""
