"""The client side of SASL, without I/O: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

An exchange is a generator that yields the tokens to send and receives the server's answers. It returns once the server
has proved everything that the mechanism lets it prove.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeAlias

Exchange: TypeAlias = Generator[bytes, bytes, None]

#: SCRAM mechanism → its hash.
SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: Fewer iterations would make the password easy to guess; more would waste the client's time.
_ITERATIONS: Final = range(4096, 1_000_001)
_FIRST: Final = re.compile(
    rb"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>\d{1,9})(?:,.*)?"
)
_NONCE_BYTES: Final = 24


class SaslError(Exception):
    """The server has failed to prove its identity, or its answer is invalid."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """A mechanism, and a function that begins an exchange. `repr` omits the secrets."""

    mechanism: str
    begin: Callable[[], Exchange]
    #: The user and the password, or the token, for clients that authenticate by themselves, such as librdkafka.
    user: str = ""
    password: str = ""
    read_token: Callable[[], str] | None = None


def plain(user: str, password: str) -> Credentials:
    """Return credentials for PLAIN (RFC 4616)."""

    def exchange() -> Exchange:
        yield b"\0%b\0%b" % (user.encode(), password.encode())

    return Credentials("PLAIN", exchange, user, password)


def bearer(read_token: Callable[[], str]) -> Credentials:
    """Return credentials for OAUTHBEARER (RFC 7628). The token is read again for each exchange."""

    def exchange() -> Exchange:
        answer = yield b"n,,\x01auth=Bearer %b\x01\x01" % read_token().encode()
        if answer:
            # The server sends the reason as JSON, and ends the exchange after our answer.
            yield b"\x01"
            raise SaslError(
                f"the server rejected the token: {answer[:500].decode(errors='replace')}"
            )

    return Credentials("OAUTHBEARER", exchange, read_token=read_token)


def scram(mechanism: str, user: str, password: str, *, is_token: bool = False) -> Credentials:
    """Return credentials for SCRAM (RFC 5802); with `is_token`, those of a delegation token (KIP-48)."""
    return Credentials(
        mechanism,
        lambda: scram_exchange(SCRAM[mechanism], user, password, is_token=is_token),
        user,
        password,
    )


def scram_exchange(name: str, user: str, password: str, *, is_token: bool) -> Exchange:
    """Perform a SCRAM exchange with the hash function `name`. Raises SaslError."""
    nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES))
    escaped = user.replace("=", "=3D").replace(",", "=2C").encode()
    bare = b"n=%b,r=%b" % (escaped, nonce) + b",tokenauth=true" * is_token
    first = yield b"n,," + bare
    match = _FIRST.fullmatch(first)
    if match is None or not match["nonce"].startswith(nonce) or match["nonce"] == nonce:
        raise SaslError("the server's first SCRAM message is not valid")
    iterations = int(match["iterations"])
    if iterations not in _ITERATIONS:
        raise SaslError(
            f"the server requests {iterations} SCRAM iterations, which is outside the safe range"
        )
    salted = hashlib.pbkdf2_hmac(name, password.encode(), _decoded(match["salt"]), iterations)
    final = b"c=biws,r=" + match["nonce"]
    message = bare + b"," + first + b"," + final
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = yield final + b",p=" + base64.b64encode(proof)
    expected = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    kind, _, value = last.partition(b"=")
    if kind != b"v" or not hmac.compare_digest(_decoded(value.partition(b",")[0]), expected):
        raise SaslError(
            "the server did not prove that it knows the password, so it may be an impostor: check the address"
        )


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise SaslError("the server's SCRAM message is not valid Base64") from error
