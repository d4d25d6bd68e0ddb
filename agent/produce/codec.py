"""Produce v3-v13 on the wire, by hand: a schema's reader would decode every record.

`decode` leaves records as views of the request, `encode` gives the response's body. Values are
named tuples, since they are made for every request and cost a third of a frozen dataclass. Names of
topics end with v12; v13 has topic ids (KIP-516).
"""

import struct
from typing import Final, NamedTuple

from agent.wire import (
    INT32,
    MalformedRequest,
    read_bytes,
    read_count,
    read_name,
    read_string,
    read_uvarint,
    skip_tags,
    write_count,
    write_string,
)

MIN_VERSION: Final = 3
MAX_VERSION: Final = 13
FIRST_FLEXIBLE: Final = 9
FIRST_TOPIC_ID: Final = 13
# Produce adds its partitions to the transaction by itself from this version on (KIP-890).
FIRST_IMPLICIT_ADD: Final = 12
_FIRST_LOG_START: Final = 5
_FIRST_RECORD_ERRORS: Final = 8

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
# partition_index, error_code, base_offset, log_append_time_ms
_PARTITION: Final = struct.Struct(">ihqq")
_INT64: Final = struct.Struct(">q")
_NO_THROTTLE: Final = INT32.pack(0)


class ProducePartition(NamedTuple):
    """Records for one partition; `records` is a view of the request, None where they were null."""

    partition: int
    records: memoryview | None


class ProduceTopic(NamedTuple):
    """`name` up to v12, then `topic_id` (16 bytes); the other one is empty."""

    name: str
    topic_id: bytes
    partitions: list[ProducePartition]


class ProduceRequest(NamedTuple):
    """`acks` is -1, 0 or 1 where the client is sane; `timeout_ms` as sent."""

    version: int
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class RecordError(NamedTuple):
    """A record that made its batch fail (v8+)."""

    batch_index: int
    message: str | None


class PartitionAnswer(NamedTuple):
    """What became of one partition's records; -1 where Kafka has -1."""

    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None


class TopicAnswer(NamedTuple):
    """`name` or `topic_id` as it was asked."""

    name: str
    topic_id: bytes
    partitions: list[PartitionAnswer]


class ProduceResponse(NamedTuple):
    """The answer, in the order of the request."""

    topics: list[TopicAnswer]


def decode(body: memoryview, version: int) -> ProduceRequest:
    """A request of v3-v13. Raises MalformedRequest."""
    flexible = version >= FIRST_FLEXIBLE
    try:
        transactional_id, at = read_string(body, 0, flexible)
        acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, at)
        count, at = read_count(body, at + _ACKS_TIMEOUT.size, flexible)
        topics = []
        for _ in range(count):
            topic, at = _decode_topic(body, at, version, flexible)
            topics.append(topic)
        if flexible:
            at = skip_tags(body, at)
    except struct.error as error:
        raise MalformedRequest(f"Produce v{version} ends early: {error}") from None
    if at != len(body):
        raise MalformedRequest(f"{len(body) - at} bytes follow the end of Produce v{version}")
    return ProduceRequest(version, transactional_id, acks, timeout_ms, topics)


def _decode_topic(
    body: memoryview, at: int, version: int, flexible: bool
) -> tuple[ProduceTopic, int]:
    name, topic_id = "", b""
    if version >= FIRST_TOPIC_ID:
        raw, at = read_bytes(body, at, 16)
        topic_id = bytes(raw)
    else:
        name, at = read_name(body, at, flexible)
    count, at = read_count(body, at, flexible)
    partitions = []
    for _ in range(count):
        (index,) = INT32.unpack_from(body, at)
        if flexible:
            size, at = read_uvarint(body, at + 4)
            size -= 1
        else:
            (size,) = INT32.unpack_from(body, at + 4)
            at += 8
        records = None
        if size >= 0:
            records, at = read_bytes(body, at, size)
        if flexible:
            at = skip_tags(body, at)
        partitions.append(ProducePartition(index, records))
    if flexible:
        at = skip_tags(body, at)
    return ProduceTopic(name, topic_id, partitions), at


def encode(response: ProduceResponse, version: int) -> list[bytes]:
    """The body of the answer; tagged fields (current_leader, node_endpoints) are left out."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(write_count(len(response.topics), flexible))
    for topic in response.topics:
        out += topic.topic_id if version >= FIRST_TOPIC_ID else write_string(topic.name, flexible)
        out += write_count(len(topic.partitions), flexible)
        for partition in topic.partitions:
            _encode_partition(out, partition, version, flexible)
        if flexible:
            out += b"\x00"
    out += _NO_THROTTLE
    if flexible:
        out += b"\x00"
    return [bytes(out)]


def _encode_partition(
    out: bytearray, answer: PartitionAnswer, version: int, flexible: bool
) -> None:
    out += _PARTITION.pack(
        answer.partition, answer.error_code, answer.base_offset, answer.log_append_time_ms
    )
    if version >= _FIRST_LOG_START:
        out += _INT64.pack(answer.log_start_offset)
    if version >= _FIRST_RECORD_ERRORS:
        out += write_count(len(answer.record_errors), flexible)
        for error in answer.record_errors:
            out += INT32.pack(error.batch_index)
            out += write_string(error.message, flexible)
            if flexible:
                out += b"\x00"
        out += write_string(answer.error_message, flexible)
    if flexible:
        out += b"\x00"
