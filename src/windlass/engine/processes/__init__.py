"""Child processes: jobs that run in a process of their own, and the parent's side of them."""
