"""The users that SCRAM and PLAIN know: those of the control plane, and those of a file.

A file (sasl.users.file) has the users that must be there before anybody can add others, in TOML:

    admin = "file:/run/secrets/admin"
    other = "env:OTHER_PASSWORD"
"""

import hashlib
import hmac
import os
import secrets
import string
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from lacuna.controlplane.shared.security import Security
from lacuna.errors import UserError
from lacuna.secret import read_secret

SHA_256: Final = 1
SHA_512: Final = 2
MECHANISM_NAMES: Final[Mapping[int, str]] = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}
HASHES: Final[Mapping[int, str]] = {SHA_256: "sha256", SHA_512: "sha512"}
#: Kafka's bounds.
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
_SALT_BITS: Final = 130
_DIGITS: Final = string.digits + string.ascii_lowercase


class Verifier(NamedTuple):
    """What SCRAM keeps of a password (RFC 5802)."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


def verifier(
    password: bytes, mechanism: int, salt: bytes = b"", iterations: int = LEAST_ITERATIONS
) -> Verifier:
    """Return the verifier of a password, with a salt of its own unless one is given. Takes milliseconds."""
    name = HASHES[mechanism]
    salt = salt or _salt(secrets.randbits(_SALT_BITS))
    return verifier_of(
        hashlib.pbkdf2_hmac(name, password, salt, iterations), mechanism, salt, iterations
    )


def verifier_of(salted_password: bytes, mechanism: int, salt: bytes, iterations: int) -> Verifier:
    """Return the verifier of a salted password."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return Verifier(iterations, salt, hashlib.new(name, client_key).digest(), server_key)


def _salt(number: int) -> bytes:
    """Return a salt as Kafka's tools make it: a number in base 36. Others would tell where a verifier comes from."""
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.encode()


class Users:
    """Looks up verifiers. Users of the file come first."""

    def __init__(self, security: Security, file: Mapping[str, bytes] | None = None) -> None:
        """`file` has passwords by user. Takes a few milliseconds for each."""
        self._security = security
        self._of_file = {
            (user, mechanism): verifier(password, mechanism)
            for user, password in (file or {}).items()
            for mechanism in HASHES
        }
        self._decoy_key = os.urandom(32)

    def find(self, user: str, mechanism: int) -> Verifier | None:
        """Return what is kept of a user's password for a mechanism."""
        found = self._of_file.get((user, mechanism))
        if found is not None:
            return found
        kept = self._security.credentials.get((user, mechanism))
        if kept is None:
            return None
        return Verifier(kept.iterations, kept.salt, kept.stored_key, kept.server_key)

    def decoy(self, user: str, mechanism: int) -> Verifier:
        """Return what looks like a user's, always the same for one name, so that nobody learns who exists."""
        name = HASHES[mechanism]
        seed = hmac.digest(self._decoy_key, f"{mechanism}:{user}".encode(), name)
        key = hmac.digest(self._decoy_key, seed, name)
        salt = _salt(int.from_bytes(seed[:32], "big") >> (256 - _SALT_BITS))
        return Verifier(LEAST_ITERATIONS, salt, key, key)


def read_users(path: Path) -> dict[str, bytes]:
    """Read a file of users: the passwords by name. Raises UserError, without secrets."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the users file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"the users file {path} is not TOML: {error}") from error
    users = {}
    for name, reference in found.items():
        if not isinstance(reference, str):
            raise UserError(f'{path}: write each user as NAME = "file:PATH"')
        users[name] = read_secret(reference, f"{path}: the password of {name}")
    return users
