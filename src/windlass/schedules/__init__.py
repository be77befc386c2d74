"""Schedules: cron expressions, due times, and the jobs they create."""
