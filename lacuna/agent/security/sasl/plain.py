"""PLAIN (RFC 4616): a user and a password, which is compared with SCRAM's verifiers, so that no password is stored.

A password must match all of the user's verifiers, for every mechanism. If a user has changed the password for only one
mechanism, the old one must no longer be accepted, and nothing shows which of the two is older.
"""

import asyncio
import hmac
import os
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lacuna.agent.security.sasl.mechanism import (
    Answer,
    Authenticated,
    AuthenticationFailed,
    check_size,
)
from lacuna.agent.security.sasl.users import HASHES, Users, Verifier, verifier
from lacuna.controlplane.shared.principal import USER, Principal

_MOST_REMEMBERED: Final = 1024


class PlainPasswords:
    """Compares passwords in a separate thread, since a comparison takes milliseconds. Caches correct passwords.

    The cache holds a digest keyed with a secret of this process, and the matching verifiers.
    """

    def __init__(self, users: Users) -> None:
        self._users = users
        self._key = os.urandom(32)
        self._right: OrderedDict[bytes, Sequence[Verifier | None]] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")

    async def are_right(self, user: str, password: bytes) -> bool:
        """Return whether the password is the user's. Raises AuthenticationFailed if only some verifiers match."""
        kept = [self._users.find(user, mechanism) for mechanism in HASHES]
        digest = hmac.digest(self._key, f"{user}\0".encode() + password, "sha256")
        if self._right.get(digest) == kept:
            self._right.move_to_end(digest)
            return True
        # The number of comparisons is the same for every user, so that their duration reveals nothing.
        compared = [
            (mechanism, found or self._users.decoy(user, mechanism))
            for mechanism, found in zip(HASHES, kept, strict=True)
        ]
        loop = asyncio.get_running_loop()
        fits = await loop.run_in_executor(self._thread, _fits, password, compared)
        of_user = [fit for fit, found in zip(fits, kept, strict=True) if found is not None]
        if not any(of_user):
            return False
        if not all(of_user):
            raise AuthenticationFailed(
                "the password matches one of the user's SCRAM mechanisms but not the other: set "
                "the same password for both, as `lacuna users add` does, or remove one of them"
            )
        self._right[digest] = kept
        if len(self._right) > _MOST_REMEMBERED:
            self._right.popitem(last=False)
        return True


def _fits(password: bytes, compared: Sequence[tuple[int, Verifier]]) -> list[bool]:
    fits = []
    for mechanism, kept in compared:
        given = verifier(password, mechanism, kept.salt, kept.iterations)
        fits.append(hmac.compare_digest(given.stored_key, kept.stored_key))
    return fits


class PlainExchange:
    """A single authentication, which consists of one token: AUTHZID NUL USER NUL PASSWORD."""

    __slots__ = ("_passwords",)

    def __init__(self, passwords: PlainPasswords) -> None:
        self._passwords = passwords

    async def respond(self, token: bytes) -> Answer:
        check_size(token)
        parts = token.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise AuthenticationFailed("its PLAIN message cannot be read")
        try:
            other, user = parts[0].decode("utf-8"), parts[1].decode("utf-8")
        except UnicodeDecodeError as error:
            raise AuthenticationFailed("its PLAIN message is not UTF-8") from error
        if other not in ("", user):
            raise AuthenticationFailed("it asks to act as another user, which is not supported")
        if not await self._passwords.are_right(user, parts[2]):
            raise AuthenticationFailed("the user does not exist, or the password is wrong")
        return Answer(b"", Authenticated(Principal(USER, user)))
