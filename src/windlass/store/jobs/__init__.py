"""The life of a job in the database: enqueue, claim, record, recover, read."""
