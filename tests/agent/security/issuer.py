"""An issuer of JWTs in this process, with its JWK set behind HTTP on 127.0.0.1."""

import json
import threading
from collections.abc import Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

NAME: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"


class Issuer:
    """Signs tokens with ES256. As a context manager, it serves its JWK set at `url`.

    `answer`, if set, is served instead, as (status, content). `served` counts requests.
    """

    def __init__(self) -> None:
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.answer: tuple[int, bytes] | None = None
        self.served = 0
        self.rotate("first")

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._thread = threading.Thread(target=partial(self._server.serve_forever, 0.01))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/keys"
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def rotate(self, kid: str) -> None:
        """Sign with a new key from now on; the set contains only that key."""
        self.kid = kid
        self.keys = {kid: ec.generate_private_key(ec.SECP256R1())}

    def jwks(self) -> bytes:
        keys = [
            {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}
            for kid, key in self.keys.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(
        self,
        now: float,
        *,
        headers: Mapping[str, Any] | None = None,
        lifetime: float = 60,
        **claims: Any,
    ) -> str:
        """Return a token for alice, issued at `now` (seconds since 1970), without claims that are None."""
        said = {
            "iss": NAME,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": now,
            "exp": now + lifetime,
        } | claims
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(
            said, self.keys[self.kid], "ES256", {"kid": self.kid} | dict(headers or {})
        )


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, issuer: Issuer, *args: Any) -> None:
        self._issuer = issuer
        super().__init__(*args)

    def do_GET(self) -> None:
        self._issuer.served += 1
        status, content = self._issuer.answer or (200, self._issuer.jwks())
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing to the terminal."""
