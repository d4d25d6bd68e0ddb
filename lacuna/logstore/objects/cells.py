"""The stored form of an encrypted object: cells that can be read and checked independently.

    object = cell*            every cell but the last holds 65,536 bytes of the object
    cell   = prefix (48) | AES-256-GCM of its bytes | tag (16)
    prefix = magic (6) | version (1) | flags (1: 1 in the last cell) | key id (16, padded with zeros) | salt (24)

Each put uses a new random salt for all cells of its object. The object's key is derived from the cluster's key, the
salt and the object's name (HKDF-SHA256), so no other object has it. The nonce of a cell is the cell's number, and the
tag also authenticates the prefix. Changed bytes, misplaced cells, renamed objects and truncation are therefore all
detected. The size of an object is derived from its stored size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final

from lacuna.logstore.objects.reading import grow
from lacuna.logstore.objects.store import DamagedObjectError, Part

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CELL_SIZE: Final = 64 * 1024
SALT_SIZE: Final = 24
KEY_SIZE: Final = 32
MAX_KEY_ID_SIZE: Final = 16

_MAGIC: Final = b"\x93LcnE\n"
_VERSION: Final = 1
_LAST: Final = 1
_PREFIX: Final = Struct(f">6sBB{MAX_KEY_ID_SIZE}s{SALT_SIZE}s")
_TAG_SIZE: Final = 16
_OVERHEAD: Final = _PREFIX.size + _TAG_SIZE
STORED_CELL_SIZE: Final = CELL_SIZE + _OVERHEAD
_PURPOSE: Final = b"lacuna object v1\0"

FindKey = Callable[[str], bytes]
"""Returns the cluster key with the given id."""


def is_encrypted(beginning: Part) -> bool:
    """Whether an object is encrypted, given at least its first six bytes."""
    return bytes(beginning[: len(_MAGIC)]) == _MAGIC


def size_of(key: str, stored_size: int) -> int:
    """Return the size of an object that takes up `stored_size` bytes in the store.

    Raises `DamagedObjectError` if no encrypted object can have that stored size.
    """
    whole, rest = divmod(stored_size, STORED_CELL_SIZE)
    least = _OVERHEAD + (whole > 0)  # only the last cell of an empty object is empty
    if rest >= least or (whole and not rest):
        return whole * CELL_SIZE + max(rest - _OVERHEAD, 0)
    raise DamagedObjectError(
        key, 0, stored_size, f"no encrypted object can have {stored_size} stored bytes"
    )


def seal(
    key: str, parts: Sequence[Part], key_id: str, cluster_key: bytes, salt: bytes
) -> bytearray:
    """Encrypt the object `key`, whose content is the concatenated parts, and return the bytes to store.

    `salt` is `SALT_SIZE` random bytes, and must be different for each object.
    """
    cipher = _cipher(cluster_key, salt, key)
    with memoryview(parts[0] if len(parts) == 1 else b"".join(parts)) as data:
        begins = range(0, max(len(data), 1), CELL_SIZE)
        sealed = grow(bytearray(), len(data) + len(begins) * _OVERHEAD)
        with memoryview(sealed) as out:
            for number, begin in enumerate(begins):
                flags = _LAST if begin == begins[-1] else 0
                prefix = _PREFIX.pack(_MAGIC, _VERSION, flags, key_id.encode(), salt)
                cell = out[number * STORED_CELL_SIZE : (number + 1) * STORED_CELL_SIZE]
                cell[: _PREFIX.size] = prefix
                part = data[begin : begin + CELL_SIZE]
                cipher.encrypt_into(_nonce(number), part, prefix, cell[_PREFIX.size :])
    return sealed


def unseal(key: str, first: int, stored: Part, find_key: FindKey) -> tuple[bytearray, bool]:
    """Decrypt consecutive cells of the object `key`, starting with cell number `first`.

    Return the plaintext, and whether it ends with the object's last cell. Raises `DamagedObjectError`, or whatever
    `find_key` raises for an unknown key id.
    """
    begins = range(0, len(stored), STORED_CELL_SIZE)
    if not begins:
        raise _damaged(key, first, "its stored form is empty")
    if len(stored) - begins[-1] < _OVERHEAD:
        raise _damaged(key, first + len(begins) - 1, "it is not encrypted, or has been truncated")
    data = grow(bytearray(), len(stored) - len(begins) * _OVERHEAD)
    is_last = False
    with memoryview(stored) as cells, memoryview(data) as out:
        beginning = bytes(cells[: _PREFIX.size])
        cipher = _opened(key, first, beginning, find_key)
        for number, begin in enumerate(begins):
            cell = cells[begin : begin + STORED_CELL_SIZE]
            prefix = bytes(cell[: _PREFIX.size])
            if is_last:
                raise _damaged(key, first + number, "bytes follow the last cell")
            if prefix[:7] != beginning[:7] or prefix[8:] != beginning[8:]:
                raise _damaged(
                    key, first + number, "the cell's prefix differs from the previous cell's"
                )
            part = out[number * CELL_SIZE : (number + 1) * CELL_SIZE]
            _decrypt(key, first + number, cipher, prefix, cell[_PREFIX.size :], part)
            is_last = prefix[7] == _LAST
    if not is_last and len(stored) % STORED_CELL_SIZE:
        raise _damaged(key, first + len(begins) - 1, "it was cut off")
    return data, is_last


def unseal_all(key: str, stored: Part, find_key: FindKey) -> bytearray:
    """Decrypt a whole object. Raises the same errors as `unseal`."""
    data, is_whole = unseal(key, 0, stored, find_key)
    if not is_whole:
        raise DamagedObjectError(
            key, len(data), 0, "it has been truncated, and its last cells are missing"
        )
    return data


def _opened(key: str, number: int, prefix: bytes, find_key: FindKey) -> AESGCM:
    if not is_encrypted(prefix):
        raise _damaged(
            key,
            number,
            "it is not encrypted, which is not allowed here, or its beginning is damaged",
        )
    _, version, _, key_id, salt = _PREFIX.unpack(prefix)
    if version != _VERSION:
        raise _damaged(
            key,
            number,
            f"it has format version {version}, which this version of lacuna cannot read: use a "
            "newer one",
        )
    try:
        name = key_id.rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError:
        raise _damaged(key, number, "its key id is damaged") from None
    return _cipher(find_key(name), salt, key)


def _decrypt(
    key: str, number: int, cipher: AESGCM, prefix: bytes, sealed: memoryview, out: memoryview
) -> None:
    from cryptography.exceptions import InvalidTag

    try:
        cipher.decrypt_into(_nonce(number), sealed, prefix, out)
    except InvalidTag:
        raise _damaged(
            key,
            number,
            "its bytes differ from those written under this name, or were encrypted with a "
            "different key",
        ) from None


def _nonce(number: int) -> bytes:
    return number.to_bytes(12)


def _damaged(key: str, number: int, reason: str) -> DamagedObjectError:
    return DamagedObjectError(key, number * CELL_SIZE, CELL_SIZE, reason)


@lru_cache(maxsize=256)
def _cipher(cluster_key: bytes, salt: bytes, key: str) -> AESGCM:
    """Return the object's cipher, from a cache if the object was used recently."""
    aead, derive = _primitives()
    return aead(derive(cluster_key, salt, _PURPOSE + key.encode()))


@cache
def _primitives() -> tuple[type[AESGCM], Callable[[bytes, bytes, bytes], bytes]]:
    # cryptography is an optional dependency
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    sha256 = SHA256()

    def derive(key: bytes, salt: bytes, purpose: bytes) -> bytes:
        return HKDF(algorithm=sha256, length=KEY_SIZE, salt=salt, info=purpose).derive(key)

    return AESGCM, derive
