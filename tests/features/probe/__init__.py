"""A feature written for the tests: a table, a flag and a duty, in one folder."""
