"""Sets Django up in a child process of a worker, before the module of a handler is imported."""

from __future__ import annotations

import django

django.setup()
