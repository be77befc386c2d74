"""Jobs that are cancelled if they have not begun by their time."""
