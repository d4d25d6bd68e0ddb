"""SCRAM-SHA-256 and SCRAM-SHA-512: the server's side of RFC 5802, with Kafka's extension for delegation tokens.

An exchange for a user who does not exist proceeds like any other, and fails at the end as with a wrong password, so
that clients cannot find out which users exist. The server uses a new nonce in each exchange, so that a recorded
exchange is useless.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from lacuna.agent.security.sasl.mechanism import (
    Answer,
    Authenticated,
    AuthenticationFailed,
    check_size,
)
from lacuna.agent.security.sasl.users import HASHES, Users, Verifier
from lacuna.controlplane.shared.principal import USER, Principal

_NONCE_BYTES: Final = 24
_FIRST: Final = re.compile(
    rb"(?P<gs2>n,(?:a=(?P<authzid>[^,]*))?,)(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<more>(?:,[A-Za-z0-9]+=[^,]*)*))"
)
_FINAL: Final = re.compile(rb"(?P<bare>c=[^,]+,r=[^,]+),p=(?P<proof>[^,]+)")

#: token id -> its verifier for a mechanism and its principal, or None if there is no such token
FindToken = Callable[[str, int], Awaitable[tuple[Verifier, Authenticated] | None]]


def _new_nonce() -> bytes:
    return base64.b64encode(secrets.token_bytes(_NONCE_BYTES))


class ScramExchange:
    """A single authentication."""

    __slots__ = (
        "_auth_message",
        "_expected",
        "_find_token",
        "_has_begun",
        "_mechanism",
        "_new_nonce",
        "_outcome",
        "_users",
        "_verifier",
    )

    def __init__(
        self,
        mechanism: int,
        users: Users,
        find_token: FindToken,
        new_nonce: Callable[[], bytes] = _new_nonce,
    ) -> None:
        self._mechanism = mechanism
        self._users = users
        self._find_token = find_token
        self._new_nonce = new_nonce
        self._has_begun = False
        self._auth_message = b""
        self._expected = b""
        self._verifier: Verifier
        self._outcome: Authenticated | None = None

    async def respond(self, token: bytes) -> Answer:
        check_size(token)
        return self._final(token) if self._has_begun else await self._first(token)

    async def _first(self, token: bytes) -> Answer:
        self._has_begun = True
        match = _FIRST.fullmatch(token)
        if match is None:
            raise AuthenticationFailed("its first SCRAM message cannot be read")
        try:
            user = _unescaped(match["user"])
            other = _unescaped(match["authzid"] or b"")
        except ValueError as error:
            raise AuthenticationFailed(
                "its name is not UTF-8 or has an unescaped equals sign"
            ) from error
        if other not in ("", user):
            raise AuthenticationFailed("it asks to act as another user, which is not supported")
        verifier = await self._look_up(user, b"tokenauth=true" in match["more"].split(b","))
        self._verifier = verifier or self._users.decoy(user, self._mechanism)
        nonce = match["nonce"] + self._new_nonce()
        salt = base64.b64encode(self._verifier.salt)
        first = b"r=%b,s=%b,i=%d" % (nonce, salt, self._verifier.iterations)
        binding = base64.b64encode(match["gs2"])
        self._expected = b"c=" + binding + b",r=" + nonce
        self._auth_message = b",".join((match["bare"], first, self._expected))
        return Answer(first)

    async def _look_up(self, user: str, is_token: bool) -> Verifier | None:
        if is_token:
            found = await self._find_token(user, self._mechanism)
            if found is None:
                return None
            verifier, self._outcome = found
            return verifier
        verifier_of_user = self._users.find(user, self._mechanism)
        if verifier_of_user is not None:
            self._outcome = Authenticated(Principal(USER, user))
        return verifier_of_user

    def _final(self, token: bytes) -> Answer:
        auth_message, expected = self._auth_message, self._expected
        self._auth_message = self._expected = b""  # the exchange ends with this message
        match = _FINAL.fullmatch(token)
        # The part without the proof (the binding and the nonce) must match the server's message byte for byte.
        if match is None or match["bare"] != expected:
            raise AuthenticationFailed("its final SCRAM message does not belong to this exchange")
        name = HASHES[self._mechanism]
        signature = hmac.digest(self._verifier.stored_key, auth_message, name)
        try:
            proof = base64.b64decode(match["proof"], validate=True)
        except binascii.Error as error:
            raise AuthenticationFailed("its SCRAM proof is not Base64") from error
        if len(proof) != len(signature):
            raise AuthenticationFailed("its SCRAM proof has the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        key = hashlib.new(name, client_key).digest()
        is_right = hmac.compare_digest(key, self._verifier.stored_key)
        if not is_right or self._outcome is None:
            raise AuthenticationFailed("the user does not exist, or the password is wrong")
        answer = hmac.digest(self._verifier.server_key, auth_message, name)
        return Answer(b"v=" + base64.b64encode(answer), self._outcome)


def _unescaped(name: bytes) -> str:
    """Decode a name escaped as in RFC 5802, with =2C for a comma and =3D for an equals sign. Raises ValueError."""
    if re.search(rb"=(?!2C|3D)", name):
        raise ValueError
    return name.decode("utf-8").replace("=2C", ",").replace("=3D", "=")
