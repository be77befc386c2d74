"""Duties that every instance does a share of: due jobs, dead instances, counts, history. One file each, none in charge."""
