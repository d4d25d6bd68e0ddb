"""PLAIN (RFC 4616): a user and a password, compared with what SCRAM keeps of it, so that no password is kept."""

import asyncio
import hmac
import os
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lacuna.agent.security.sasl.mechanism import Answer, Authenticated, AuthenticationFailed
from lacuna.agent.security.sasl.users import SHA_256, SHA_512, Users, Verifier, verifier
from lacuna.controlplane.shared.principal import USER, Principal

_MOST_REMEMBERED: Final = 1024


class PlainPasswords:
    """Compares passwords in a thread of its own, since that takes milliseconds. Remembers those that were right.

    What is remembered is a digest under a key that only this process has, beside the verifier that it fits.
    """

    def __init__(self, users: Users) -> None:
        self._users = users
        self._key = os.urandom(32)
        self._right: OrderedDict[bytes, Verifier] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")

    async def are_right(self, user: str, password: bytes) -> bool:
        """Return whether it is the user's password."""
        mechanism = SHA_256 if self._users.find(user, SHA_256) else SHA_512
        kept = self._users.find(user, mechanism)
        digest = hmac.digest(self._key, f"{user}\0".encode() + password, "sha256")
        if kept is not None and self._right.get(digest) == kept:
            self._right.move_to_end(digest)
            return True
        compared = kept or self._users.decoy(user, mechanism)
        loop = asyncio.get_running_loop()
        is_right = await loop.run_in_executor(self._thread, _fits, password, mechanism, compared)
        if not is_right or kept is None:
            return False
        self._right[digest] = kept
        if len(self._right) > _MOST_REMEMBERED:
            self._right.popitem(last=False)
        return True


def _fits(password: bytes, mechanism: int, kept: Verifier) -> bool:
    given = verifier(password, mechanism, kept.salt, kept.iterations)
    return hmac.compare_digest(given.stored_key, kept.stored_key)


class PlainExchange:
    """One authentication, with a single token."""

    __slots__ = ("_passwords",)

    def __init__(self, passwords: PlainPasswords) -> None:
        self._passwords = passwords

    async def respond(self, token: bytes) -> Answer:
        """Take AUTHZID NUL USER NUL PASSWORD. Raises AuthenticationFailed."""
        parts = token.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("its PLAIN message cannot be read")
        try:
            other, user = parts[0].decode("utf-8"), parts[1].decode("utf-8")
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("its PLAIN message is not UTF-8") from error
        if other not in ("", user):
            raise AuthenticationFailed(f"{user} asks to act as another user, which is not possible")
        if not await self._passwords.are_right(user, parts[2]):
            raise AuthenticationFailed("no such user or a wrong password")
        return Answer(b"", Authenticated(Principal(USER, user)))
