"""The handler's side of a job: registered kinds and phases, the context, transactions, chunks, and injected values."""
