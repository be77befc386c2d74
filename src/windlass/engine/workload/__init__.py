"""The claimed jobs of an instance: those that wait in memory, those that run, and their slots."""
