"""The shop of the engine's tests: an app on a real database, whose engines end with the test."""

from tests.engine.conftest import app, box, shop

__all__ = ["app", "box", "shop"]
