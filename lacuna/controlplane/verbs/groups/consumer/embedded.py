"""Reads and writes ConsumerProtocol v0-v3, in which classic consumers encode what they send each other in JoinGroup and
SyncGroup.

The coordinator needs it for groups with members of both protocols, and to find the topics that a classic group reads.
Later versions are read as v3, since each version only appends fields.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

NEWEST: Final = 3
_FIRST_OWNED: Final = 1
_FIRST_GENERATION: Final = 2
_FIRST_RACK: Final = 3

TopicPartitions = Mapping[str, frozenset[int]]  # by topic name


class MalformedProtocolError(ValueError):
    """The bytes are not a valid subscription or assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSubscription:
    """A member's subscription, and the partitions it owned when it sent the subscription."""

    version: int
    topic_names: tuple[str, ...]
    owned: TopicPartitions = field(default_factory=dict)
    rack_id: str = ""


class _Reader:
    """Reads big-endian fields. Raises MalformedProtocolError if bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise MalformedProtocolError(
                f"the field at byte {self.position} needs {size} bytes, but only "
                f"{len(self.data) - self.position} are left"
            )
        self.position, start = end, self.position
        return self.data[start:end]

    def int16(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def string(self) -> str:
        try:
            return self.take(self.int16()).decode()
        except UnicodeDecodeError as error:
            raise MalformedProtocolError("a name is not UTF-8") from error

    def nullable_string(self) -> str:
        size = self.int16()
        self.position -= 2
        if size == -1:
            self.position += 2
            return ""
        return self.string()

    def skip_nullable_bytes(self) -> None:
        self.take(max(self.int32(), 0))

    def count(self) -> int:
        """Read the length of an array. Raises MalformedProtocolError if the remaining bytes cannot hold it."""
        count = self.int32()
        if count > len(self.data):
            raise MalformedProtocolError(
                f"an array of {count} entries does not fit into {len(self.data)} bytes"
            )
        return max(count, 0)

    def topic_partitions(self) -> TopicPartitions:
        read: dict[str, frozenset[int]] = {}
        for _ in range(self.count()):
            name = self.string()
            read[name] = frozenset(self.int32() for _ in range(self.count()))
        return read


def read_subscription(data: bytes) -> EmbeddedSubscription:
    """Read a subscription from a member's metadata. Raises MalformedProtocolError."""
    reader = _Reader(data)
    version = reader.int16()
    if version < 0:
        raise MalformedProtocolError(f"version {version}")
    topic_names = tuple(reader.string() for _ in range(reader.count()))
    reader.skip_nullable_bytes()
    owned = reader.topic_partitions() if version >= _FIRST_OWNED else {}
    if version >= _FIRST_GENERATION:
        reader.int32()
    rack_id = reader.nullable_string() if version >= _FIRST_RACK else ""
    return EmbeddedSubscription(
        version=version, topic_names=topic_names, owned=owned, rack_id=rack_id
    )


def read_assignment(data: bytes) -> TopicPartitions:
    """Read a member's assignment, which is empty if `data` is. Raises MalformedProtocolError."""
    if not data:
        return {}
    reader = _Reader(data)
    if reader.int16() < 0:
        raise MalformedProtocolError("a negative version")
    return reader.topic_partitions()


def write_assignment(partitions: TopicPartitions, version: int) -> bytes:
    """Encode an assignment in this protocol version, without user data."""
    parts = [struct.pack(">hi", min(version, NEWEST), len(partitions))]
    for name, indexes in sorted(partitions.items()):
        encoded = name.encode()
        parts.append(struct.pack(f">h{len(encoded)}si", len(encoded), encoded, len(indexes)))
        parts.extend(struct.pack(">i", index) for index in sorted(indexes))
    parts.append(struct.pack(">i", -1))
    return b"".join(parts)
