"""PostgreSQL: sessions, transactions, notifications, partitions."""
