"""The running system: finds jobs, holds them in memory, gives them to processors, records what came of them."""
