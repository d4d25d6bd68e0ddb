"""Rendezvous hashing: finds the agent to which a key belongs. When an agent joins or leaves, only its share of the keys
moves.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

#: Clients choose group names of up to 32 KiB; caching 65,536 of those would take two GiB.
_LONGEST_REMEMBERED: Final = 256


def partition_key(topic_id: bytes, partition: int) -> bytes:
    return topic_id + partition.to_bytes(4, "big", signed=True)


def place(key: bytes, node_ids: tuple[int, ...]) -> int:
    """Return the node id on which `key` is placed. `node_ids` must not be empty."""
    if len(node_ids) == 1:
        return node_ids[0]
    return remembered(key, node_ids) if len(key) <= _LONGEST_REMEMBERED else _place(key, node_ids)


def place_once(key: bytes, node_ids: Sequence[int]) -> int:
    """Like `place`, but without caching, for a key that is unlikely to be used again."""
    return node_ids[0] if len(node_ids) == 1 else _place(key, node_ids)


def _place(key: bytes, node_ids: Sequence[int]) -> int:
    return max(node_ids, key=lambda node_id: _weight(key, node_id))


#: `_place` with a cache, for keys that are not long.
remembered = lru_cache(maxsize=65_536)(_place)


def _weight(key: bytes, node_id: int) -> bytes:
    return blake2b(key, digest_size=8, salt=node_id.to_bytes(8, "big", signed=True)).digest()
