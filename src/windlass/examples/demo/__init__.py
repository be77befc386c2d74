"""The demonstration behind ``windlass demo``."""
