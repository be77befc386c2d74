"""A handler's arguments and results: signatures, validation, and JSON."""
