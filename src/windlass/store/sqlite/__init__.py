"""SQLite: connections, one writer, notifications between processes."""
