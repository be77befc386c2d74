"""The application object: decorators, kinds of jobs, and ``build``."""
