"""The requests of the client, by noun: for each verb its address, its body, and what its response becomes. Sending is another matter (sending.py)."""
