"""Middleware around attempts."""
