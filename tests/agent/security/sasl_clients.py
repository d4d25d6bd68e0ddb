"""The client's side of SASL, for tests."""

import base64
import hashlib
import hmac

from lacuna.wire.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from tests.agent.harness import RawClient


class ScramClient:
    """One authentication, as RFC 5802 describes it."""

    def __init__(
        self,
        user: str,
        password: str,
        mechanism: str = "SCRAM-SHA-256",
        *,
        nonce: str = "nonce",
        more: str = "",
    ) -> None:
        self.mechanism = mechanism
        self.hash = mechanism.rpartition("SCRAM-")[2].replace("-", "").lower()
        self.password = password.encode()
        self.nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self.bare = f"n={escaped},r={nonce}{more}"
        self.signature = b""

    @property
    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, server_first: bytes, *, binding: str = "biws", nonce: str = "") -> bytes:
        """Return the final message; `nonce` replaces the server's."""
        said = dict(part.split("=", 1) for part in server_first.decode().split(","))
        assert said["r"].startswith(self.nonce)
        assert said["r"] != self.nonce
        salt, count = base64.b64decode(said["s"]), int(said["i"])
        salted = hashlib.pbkdf2_hmac(self.hash, self.password, salt, count)
        key = hmac.digest(salted, b"Client Key", self.hash)
        without_proof = f"c={binding},r={nonce or said['r']}"
        message = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        stored = hashlib.new(self.hash, key).digest()
        signature = hmac.digest(stored, message, self.hash)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self.signature = hmac.digest(
            hmac.digest(salted, b"Server Key", self.hash), message, self.hash
        )
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def trusts(self, server_final: bytes) -> bool:
        """Whether the server knows the password too."""
        return server_final == b"v=" + base64.b64encode(self.signature)


async def handshake(client: RawClient, mechanism: str, version: int = 1) -> int:
    """Chooses a mechanism; returns the error code."""
    answer = await client.call(version, SaslHandshakeRequest(mechanism))
    return int(answer.error_code)


async def send_token(client: RawClient, token: bytes) -> SaslAuthenticateResponse:
    """Sends a token in SaslAuthenticate v2."""
    answer: SaslAuthenticateResponse = await client.call(2, SaslAuthenticateRequest(token))
    return answer


async def log_in(client: RawClient, scram: ScramClient) -> SaslAuthenticateResponse:
    """Authenticates by SCRAM; returns the last answer, or the first that is an error."""
    assert await handshake(client, scram.mechanism) == 0
    first = await send_token(client, scram.first)
    if first.error_code:
        return first
    return await send_token(client, scram.final(bytes(first.auth_bytes)))


async def log_in_plain(client: RawClient, user: str, password: str) -> SaslAuthenticateResponse:
    """Authenticates by PLAIN."""
    assert await handshake(client, "PLAIN") == 0
    return await send_token(client, f"\0{user}\0{password}".encode())
