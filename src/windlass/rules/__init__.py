"""Rules: jobs that are created when other jobs end, alone or as a group (fan-in)."""
