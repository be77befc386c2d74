"""Errors of the API as problems (RFC 9457): one type for each, with pointers to the wrong parts of a request."""
