-- Nothing to do: history is one table.
SELECT NULL;
