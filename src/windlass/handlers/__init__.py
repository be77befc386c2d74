"""What a handler sees: registered kinds and phases, the context, transactions, chunks, and injected values."""
