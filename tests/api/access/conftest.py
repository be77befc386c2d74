"""An API with keys of its own for JWTs, and clients that talk to it over loopback."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fastapi.testclient import TestClient
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.api.access.matrix import World, filled
from windlass import App
from windlass.api import ApiSettings, create_api
from windlass.features import Store

ISSUER, AUDIENCE = "https://id.example", "jobs"
HOST = "http://127.0.0.1:8080"
SECRET = b"s" * 32


@dataclass
class Keys:
    """Keys of an issuer, by algorithm, and the JWKS of their public halves."""

    rsa: Any = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    ec: Any = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def jwks(self) -> str:
        shared = base64.urlsafe_b64encode(SECRET).rstrip(b"=").decode()
        keys = [
            {**json.loads(RSAAlgorithm.to_jwk(self.rsa.public_key())), "kid": "RS256", "alg": "RS256"},
            {**json.loads(ECAlgorithm.to_jwk(self.ec.public_key())), "kid": "ES256", "alg": "ES256"},
            {"kty": "oct", "k": shared, "kid": "HS256", "alg": "HS256"},
        ]
        return json.dumps({"keys": keys})

    def token(
        self, algorithm: str = "RS256", *, kid: str | None = None, key: Any = None, **claims: Any
    ) -> str:
        """A token of Anna of acme who may view; ``claims`` change it, None leaves one out."""
        now = int(time.time())
        facts = {"sub": "anna", "org": "acme", "iss": ISSUER, "aud": AUDIENCE, "exp": now + 600, "roles": ["windlass:view"], **claims}  # fmt: skip
        own = {"RS256": self.rsa, "ES256": self.ec, "HS256": SECRET}
        return jwt.encode(
            {name: value for name, value in facts.items() if value is not None},
            own[algorithm] if key is None else key,
            algorithm,
            {"kid": kid or algorithm},
        )


@pytest.fixture(scope="session")
def keys() -> Keys:
    return Keys()


@pytest.fixture
def jwt_settings(keys: Keys, tmp_path: Path) -> ApiSettings:
    file = tmp_path / "jwks.json"
    file.write_text(keys.jwks())
    return ApiSettings(
        jwks=str(file),
        jwt_algorithms=["RS256", "ES256", "HS256"],
        jwt_issuer=[ISSUER],
        jwt_audience=[AUDIENCE],
        jwt_tenant="org",
    )


Connect = Callable[..., TestClient]


@pytest.fixture(scope="module")
def world(open_shared: Callable[[], Store]) -> Iterator[World]:
    """An API on a store that has what belongs to Anna."""
    with filled(open_shared()) as made:
        yield made


@pytest.fixture
def app(store: Store) -> Iterator[App]:
    made = App(store=store)

    @made.job
    def welcome(user: str = "") -> str:
        return f"hello {user}"

    with made:
        yield made


@pytest.fixture
def connect(app: App) -> Connect:
    """Makes a client of an API of the test's app, which comes from this machine; its lifespan is not begun: the API needs none."""

    def client(
        settings: ApiSettings | None = None,
        *,
        authenticate: Callable[..., Any] | None = None,
        host: str = HOST,
        address: str = "127.0.0.1",
        **headers: str,
    ) -> TestClient:
        api = create_api(app, settings=settings or ApiSettings(), authenticate=authenticate)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return TestClient(api, base_url=host, client=(address, 50_000), headers=given)

    return client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def web_server() -> Iterator[Callable[[dict[str, str]], str]]:
    """Starts a small web server on loopback with these texts by path; returns its address."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    servers = []

    def start(texts: dict[str, str]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = texts.get(self.path)
                self.send_response(404 if text is None else 200)
                self.end_headers()
                self.wfile.write((text or "").encode())

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
