"""The running system: claims jobs, holds them in memory, gives them to processors, and records their outcomes."""
