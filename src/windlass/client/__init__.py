"""A client of the REST API, for programs without access to the database: ``Client`` and ``AsyncClient``.

It imports neither the engine nor the store nor FastAPI, only httpx: ``pip install "windlass[client]"``.
"""

from __future__ import annotations

from windlass.errors import ConfigError

try:
    from windlass.client.asks.submits import NewRemoteJob
    from windlass.client.asyncs import AsyncClient, AsyncRemoteBatch, AsyncRemoteJob
    from windlass.client.client import Client, RemoteBatch, RemoteJob
except ModuleNotFoundError as missing:
    if missing.name != "httpx":
        raise
    raise ConfigError(
        "windlass.client", "not installed", because='it needs httpx: pip install "windlass[client]"'
    ) from missing

__all__ = [
    "AsyncClient",
    "AsyncRemoteBatch",
    "AsyncRemoteJob",
    "Client",
    "NewRemoteJob",
    "RemoteBatch",
    "RemoteJob",
]
