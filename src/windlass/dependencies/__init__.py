"""Dependencies: jobs that wait for the end of other jobs."""
