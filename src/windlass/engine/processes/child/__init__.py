"""The child's side: what runs inside a child process."""
