"""What every request passes: an id, limits of its body, checks of its host and its caller, and the headers of its response."""
