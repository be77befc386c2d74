"""The code that runs inside a child process."""
