"""SASL as a client: PLAIN, SCRAM-SHA-256 and -512, and OAUTHBEARER, without I/O.

An exchange is a generator. It yields the tokens to send, is sent the server's answers, and returns once the server has
proved what the mechanism lets it prove.
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

#: Of each SCRAM mechanism, its hash.
SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: A server that asks for fewer iterations wants the password to be guessed, one that asks for more wants our time.
_ITERATIONS: Final = range(4096, 1_000_001)
_FIRST: Final = re.compile(
    rb"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>\d{1,9})(?:,.*)?"
)
_NONCE_BYTES: Final = 24


class SaslError(Exception):
    """The server has not proved who it is, or answered what is no answer."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """How to authenticate: a mechanism, and what begins an exchange. Not shown, as secrets are behind it."""

    mechanism: str
    begin: Callable[[], Exchange]
    #: For clients that authenticate by themselves, as librdkafka: the user and the password, or the token.
    user: str = ""
    password: str = ""
    read_token: Callable[[], str] | None = None


def plain(user: str, password: str) -> Credentials:
    """Return what authenticates by PLAIN (RFC 4616)."""

    def exchange() -> Exchange:
        yield b"\0%b\0%b" % (user.encode(), password.encode())

    return Credentials("PLAIN", exchange, user, password)


def bearer(read_token: Callable[[], str]) -> Credentials:
    """Return what authenticates by OAUTHBEARER (RFC 7628), with a token that is read for each exchange."""

    def exchange() -> Exchange:
        answer = yield b"n,,\x01auth=Bearer %b\x01\x01" % read_token().encode()
        if answer:
            # The server says why as JSON, and ends the exchange once it is answered.
            yield b"\x01"
            raise SaslError(f"the token was refused: {answer[:500].decode(errors='replace')}")

    return Credentials("OAUTHBEARER", exchange, read_token=read_token)


def scram(mechanism: str, user: str, password: str, *, is_token: bool = False) -> Credentials:
    """Return what authenticates by SCRAM (RFC 5802); `is_token` says that the user is a delegation token (KIP-48)."""
    return Credentials(
        mechanism,
        lambda: scram_exchange(SCRAM[mechanism], user, password, is_token=is_token),
        user,
        password,
    )


def scram_exchange(name: str, user: str, password: str, *, is_token: bool) -> Exchange:
    """Exchange the messages of SCRAM with the hash `name`. Raises SaslError."""
    nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES))
    escaped = user.replace("=", "=3D").replace(",", "=2C").encode()
    bare = b"n=%b,r=%b" % (escaped, nonce) + b",tokenauth=true" * is_token
    first = yield b"n,," + bare
    match = _FIRST.fullmatch(first)
    if match is None or not match["nonce"].startswith(nonce) or match["nonce"] == nonce:
        raise SaslError("the server's first SCRAM message cannot be read")
    iterations = int(match["iterations"])
    if iterations not in _ITERATIONS:
        raise SaslError(f"the server asks for {iterations} iterations of SCRAM, which is not safe")
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
        raise SaslError("the server does not know the password, so it is not the one that it says")


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise SaslError("the server's SCRAM message is not Base64") from error
