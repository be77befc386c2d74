"""Headers: short texts by name that are carried with a job, such as the context of a trace."""
