"""Retry policies, and calls that are repeated by them.

A policy says how often a failed attempt is repeated, how long it waits, and after which exceptions. ``run_with_backoff`` repeats one
external call inside an attempt by the same policies.
"""

from __future__ import annotations

from windlass.handlers.backoff import run_with_backoff as run_with_backoff
from windlass.handlers.backoff import run_with_backoff_async as run_with_backoff_async
from windlass.model.retry import RetryPolicy as RetryPolicy
from windlass.model.retry import custom as custom
from windlass.model.retry import exponential as exponential
from windlass.model.retry import fixed as fixed
from windlass.model.retry import linear as linear

__all__ = [
    "RetryPolicy",
    "custom",
    "exponential",
    "fixed",
    "linear",
    "run_with_backoff",
    "run_with_backoff_async",
]
