"""One service to see and to act: Python (``app.jobs`` and its siblings), command line, REST and dashboard use nothing else."""
