"""Jobs that are cancelled if they have not begun by a certain time."""
