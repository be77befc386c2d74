"""A service that summarises pages: each request once, with locks, backoff, structured errors and correlation ids."""
