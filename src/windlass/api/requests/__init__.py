"""What the API reads from requests: bodies, filters, cursors and headers."""
