"""The users of SCRAM and PLAIN, who come from the control plane and from a file.

The file (sasl.users.file) lists, in TOML, the users who must exist before others can be added:

    admin = "file:/run/secrets/admin"
    other = "env:OTHER_PASSWORD"
"""

import hashlib
import hmac
import os
import secrets
import string
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.controlplane.shared.security import Security

SHA_256: Final = 1
SHA_512: Final = 2
MECHANISM_NAMES: Final[Mapping[int, str]] = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}
HASHES: Final[Mapping[int, str]] = {SHA_256: "sha256", SHA_512: "sha512"}
#: Kafka's bounds.
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
_SALT_BITS: Final = 130
_DIGITS: Final = string.digits + string.ascii_lowercase
#: The longest wait until new salts are in use. Ten users in a file take half of this time.
_MOST_WAIT_SECONDS: Final = 0.1


class Verifier(NamedTuple):
    """SCRAM's verifier of a password (RFC 5802)."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


def verifier(
    password: bytes, mechanism: int, salt: bytes = b"", iterations: int = LEAST_ITERATIONS
) -> Verifier:
    """Return the verifier of a password, with a new salt unless one is given. Takes milliseconds."""
    name = HASHES[mechanism]
    salt = salt or _salt(secrets.randbits(_SALT_BITS))
    return verifier_of(
        hashlib.pbkdf2_hmac(name, password, salt, iterations), mechanism, salt, iterations
    )


def verifier_of(salted_password: bytes, mechanism: int, salt: bytes, iterations: int) -> Verifier:
    name = HASHES[mechanism]
    client_key = hmac.digest(salted_password, b"Client Key", name)
    server_key = hmac.digest(salted_password, b"Server Key", name)
    return Verifier(iterations, salt, hashlib.new(name, client_key).digest(), server_key)


def _salt(number: int) -> bytes:
    """Return a salt in the form that Kafka's tools use, a number in base 36. Any other form would reveal its origin."""
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.encode()


def derived_salt(key: bytes, name: str, mechanism: int) -> bytes:
    """Return the salt for a name, derived with a key. Without the key, it looks like a salt from Kafka's tools."""
    seed = hmac.digest(key, f"{mechanism}:{name}".encode(), "sha256")
    return _salt(int.from_bytes(seed, "big") >> (256 - _SALT_BITS))


class _Derived(NamedTuple):
    """The values derived from a secret: a key for salts, and the users in the file."""

    key: bytes
    of_file: Mapping[tuple[str, int], Verifier]


class Users:
    """Looks up verifiers. Users in the file take precedence.

    The salts of users in the file, and of users who do not exist, are derived from a secret of the cluster, so that
    agents cannot be distinguished by their salts. Each leader has a new secret.
    """

    def __init__(
        self,
        security: Security,
        file: Mapping[str, bytes] | None = None,
        secret: Callable[[], bytes] = bytes,
    ) -> None:
        """`file` maps users to passwords. Deriving each verifier takes milliseconds. `secret` returns b"" until the
        secret is known.
        """
        self._security = security
        self._passwords = dict(file or {})
        self._secret = secret
        self._used = secret()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="users")
        self._renewal: Future[None] | None = None
        self._derived: _Derived
        self._derive(self._used or os.urandom(32))

    def __bool__(self) -> bool:
        return bool(self._passwords or self._security.credentials)

    def _derive(self, secret: bytes) -> None:
        key = hmac.digest(secret, b"lacuna salts of users", "sha256")
        of_file = {
            (user, mechanism): verifier(password, mechanism, derived_salt(key, user, mechanism))
            for user, password in self._passwords.items()
            for mechanism in HASHES
        }
        self._derived = _Derived(key, of_file)

    def _current(self) -> _Derived:
        secret = self._secret()
        is_idle = self._renewal is None or self._renewal.done()
        if secret and secret != self._used and is_idle:
            self._used = secret
            self._renewal = self._thread.submit(self._derive, secret)
            with suppress(TimeoutError):
                self._renewal.result(_MOST_WAIT_SECONDS)
        return self._derived

    def find(self, user: str, mechanism: int) -> Verifier | None:
        """Return the verifier of a user's password for a mechanism."""
        found = self._current().of_file.get((user, mechanism))
        if found is not None:
            return found
        kept = self._security.credentials.get((user, mechanism))
        if kept is None:
            return None
        return Verifier(kept.iterations, kept.salt, kept.stored_key, kept.server_key)

    def is_of_file(self, user: str) -> bool:
        """Return whether a user is in the file, whose password takes precedence over the control plane's."""
        return user in self._passwords

    def decoy(self, user: str, mechanism: int) -> Verifier:
        """Return a plausible verifier, always the same for a name, so that clients cannot learn which users exist."""
        salts = self._current().key
        key = hmac.digest(salts, f"decoy:{user}".encode(), HASHES[mechanism])
        return Verifier(LEAST_ITERATIONS, derived_salt(salts, user, mechanism), key, key)


def read_users(path: Path) -> dict[str, bytes]:
    """Read a file of users, and return the passwords by name. Raises UserError, whose message contains no secrets."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the users file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"the users file {path} is not TOML: {error}") from error
    users = {}
    for name, reference in found.items():
        if not isinstance(reference, str):
            raise UserError(f'{path}: specify each user as NAME = "file:PATH"')
        users[name] = read_secret(reference, f"{path}: the password of {name}")
    return users
