-- Nothing to do: SQLite plans each statement when a connection prepares it, and knows which index is unique.
SELECT NULL;
