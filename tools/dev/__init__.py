"""What ``./dev`` is made of. Only the standard library is used: it runs before anything is installed."""
