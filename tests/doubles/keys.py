"""Cluster keys chosen by a test."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lacuna.logstore.objects.cluster_keys import ClusterKeys, find_key


def made_up(key_id: str) -> bytes:
    """Return the test key for this id."""
    return key_id.encode().ljust(32, b".")


@dataclass
class FixedKeys:
    """A `KeySource`. Assign to `keys` to replace its keys."""

    keys: ClusterKeys

    def now(self, age: float = 0.0) -> ClusterKeys:
        return self.keys

    def key(self, key_id: str) -> bytes:
        return find_key(self.keys, key_id, "the test")


def some_keys(*key_ids: str, reads_plaintext: bool = False) -> FixedKeys:
    """Return keys, the first of which is current. Without ids, return a single key."""
    ids = key_ids or ("k1",)
    return FixedKeys(ClusterKeys(ids[0], reads_plaintext, {each: made_up(each) for each in ids}))


def keys_text(*key_ids: str, plaintext: str = "refuse") -> str:
    """Return the same keys as the content of a file."""
    lines = [f'"{each}" = "{base64.b64encode(made_up(each)).decode()}"' for each in key_ids]
    return "\n".join([f'current = "{key_ids[0]}"', f'plaintext = "{plaintext}"', "[keys]", *lines])


def write_keys(path: Path, key_ids: Iterable[str], plaintext: str = "refuse") -> Path:
    """Write the keys to a file that only its owner can read."""
    path.touch(0o600)
    path.write_text(keys_text(*key_ids, plaintext=plaintext))
    return path
