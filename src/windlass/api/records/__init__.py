"""The bodies of responses: a model for each record of the library."""
