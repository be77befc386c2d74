"""The demonstration behind ``windlass demo``: the examples ``visibility`` and ``timesheets`` on one database, with simulated users."""
