"""Log lines of jobs: what a handler logged, kept with its attempt."""
