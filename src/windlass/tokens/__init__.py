"""Tokens of the REST API: made once, kept as hashes, revoked and expired."""
