"""Requests that may be repeated: a key of the client's, stored with the jobs that the first request submitted."""
