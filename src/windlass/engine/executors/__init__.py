"""Executors: the event loop and the threads that run handlers inside the worker's process."""
