"""Fetch v4-v18 on the wire, by hand: it is the hot path, and payload must not be copied.

`encode` gives the response's body as a list of buffers in which records stand as they came. Values
are named tuples, since they are made for every partition of every request. Names of topics end with
v12; v13 has topic ids (KIP-516). Fields that only followers send are passed over.
"""

import struct
from typing import Final, NamedTuple

from agent.wire import (
    INT32,
    Buffer,
    MalformedRequest,
    read_bytes,
    read_count,
    read_name,
    read_string,
    skip_tags,
    uvarint,
    write_count,
    write_string,
)

MIN_VERSION: Final = 4
MAX_VERSION: Final = 18
FIRST_TOPIC_ID: Final = 13
FIRST_FLEXIBLE: Final = 12
_FIRST_LOG_START: Final = 5
# Before KIP-112 clients know no KAFKA_STORAGE_ERROR.
_FIRST_STORAGE_ERROR: Final = 6
_FIRST_SESSION: Final = 7
_FIRST_LEADER_EPOCH: Final = 9
_FIRST_RACK: Final = 11
_FIRST_REPLICA_STATE: Final = 15

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_LEADER_EPOCH: Final = -1

KAFKA_STORAGE_ERROR: Final = 56
NOT_LEADER_OR_FOLLOWER: Final = 6

# max_wait_ms, min_bytes, max_bytes, isolation_level
_HEAD: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
# partition, current_leader_epoch (v9), fetch_offset, last_fetched_epoch (v12),
# log_start_offset (v5), partition_max_bytes
_ASKED_V4: Final = struct.Struct(">iqi")
_ASKED_V5: Final = struct.Struct(">iqqi")
_ASKED_V9: Final = struct.Struct(">iiqqi")
_ASKED_V12: Final = struct.Struct(">iiqiqi")

# partition_index, error_code, high_watermark, last_stable_offset
_ANSWER_V4: Final = struct.Struct(">ihqq")
_ANSWER_V5: Final = struct.Struct(">ihqqq")
# throttle_time_ms; from v7 on error_code, session_id
_TOP_V4: Final = struct.Struct(">i")
_TOP_V7: Final = struct.Struct(">ihi")
_NULL_ARRAY: Final = INT32.pack(-1)
_EMPTY_ARRAY: Final = INT32.pack(0)
_NO_REPLICA: Final = INT32.pack(-1)


class FetchPartition(NamedTuple):
    """What is asked of one partition."""

    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int


class FetchTopic(NamedTuple):
    """`name` up to v12, then `topic_id` (16 bytes); the other one is empty."""

    name: str
    topic_id: bytes
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that leave an incremental session."""

    name: str
    topic_id: bytes
    partitions: list[int]


class FetchRequest(NamedTuple):
    """Sizes in bytes. Where no session is asked for, session_epoch is FINAL_EPOCH."""

    version: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str


class PartitionAnswer(NamedTuple):
    """`records` are the buffers that stand one behind the other, `size` their bytes; often none."""

    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: tuple[Buffer, ...] = ()
    size: int = 0


class TopicAnswer(NamedTuple):
    """`name` or `topic_id` as it was asked."""

    name: str
    topic_id: bytes
    partitions: list[PartitionAnswer]


class FetchResponse(NamedTuple):
    """`is_committed`: asked with read_committed; aborted_transactions is empty and not null."""

    error_code: int
    session_id: int
    topics: list[TopicAnswer]
    is_committed: bool


def decode(body: memoryview, version: int) -> FetchRequest:
    """A request of v4-v18. Raises MalformedRequest."""
    flexible = version >= FIRST_FLEXIBLE
    try:
        at = 0 if version >= _FIRST_REPLICA_STATE else 4
        max_wait_ms, min_bytes, max_bytes, isolation_level = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        session_id, session_epoch = NO_SESSION, FINAL_EPOCH
        if version >= _FIRST_SESSION:
            session_id, session_epoch = _SESSION.unpack_from(body, at)
            at += 8
        count, at = read_count(body, at, flexible)
        topics: list[FetchTopic] = []
        for _ in range(count):
            at = _decode_topic(body, at, version, topics)
        forgotten: list[ForgottenTopic] = []
        rack_id = ""
        if version >= _FIRST_SESSION:
            count, at = read_count(body, at, flexible)
            for _ in range(count):
                at = _decode_forgotten(body, at, version, forgotten)
        if version >= _FIRST_RACK:
            rack, at = read_string(body, at, flexible)
            rack_id = rack or ""
        if flexible:
            at = skip_tags(body, at)
    except struct.error as error:
        raise MalformedRequest(f"Fetch v{version} ends early: {error}") from None
    if at != len(body):
        raise MalformedRequest(f"{len(body) - at} bytes follow the end of Fetch v{version}")
    return FetchRequest(
        version,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )


def _decode_key(body: memoryview, at: int, version: int) -> tuple[str, bytes, int]:
    """A topic's name or id."""
    if version >= FIRST_TOPIC_ID:
        raw, at = read_bytes(body, at, 16)
        return "", bytes(raw), at
    name, at = read_name(body, at, version >= FIRST_FLEXIBLE)
    return name, b"", at


def _decode_topic(body: memoryview, at: int, version: int, topics: list[FetchTopic]) -> int:
    flexible = version >= FIRST_FLEXIBLE
    name, topic_id, at = _decode_key(body, at, version)
    count, at = read_count(body, at, flexible)
    partitions = []
    for _ in range(count):
        epoch = NO_LEADER_EPOCH
        if flexible:
            partition, epoch, offset, _, _, size = _ASKED_V12.unpack_from(body, at)
            at += _ASKED_V12.size
            # Almost always no tags: look before the call.
            at = at + 1 if at < len(body) and body[at] == 0 else skip_tags(body, at)
        elif version >= _FIRST_LEADER_EPOCH:
            partition, epoch, offset, _, size = _ASKED_V9.unpack_from(body, at)
            at += _ASKED_V9.size
        elif version >= _FIRST_LOG_START:
            partition, offset, _, size = _ASKED_V5.unpack_from(body, at)
            at += _ASKED_V5.size
        else:
            partition, offset, size = _ASKED_V4.unpack_from(body, at)
            at += _ASKED_V4.size
        partitions.append(FetchPartition(partition, offset, size, epoch))
    if flexible:
        at = skip_tags(body, at)
    topics.append(FetchTopic(name, topic_id, partitions))
    return at


def _decode_forgotten(
    body: memoryview, at: int, version: int, forgotten: list[ForgottenTopic]
) -> int:
    flexible = version >= FIRST_FLEXIBLE
    name, topic_id, at = _decode_key(body, at, version)
    count, at = read_count(body, at, flexible)
    partitions = list(struct.unpack_from(f">{count}i", body, at))
    at += 4 * count
    if flexible:
        at = skip_tags(body, at)
    forgotten.append(ForgottenTopic(name, topic_id, partitions))
    return at


def encode(response: FetchResponse, version: int) -> list[Buffer]:
    """The body of the answer as buffers; records are the very objects of `response`."""
    flexible = version >= FIRST_FLEXIBLE
    buffers: list[Buffer] = []
    if version < _FIRST_STORAGE_ERROR:
        response = _without_storage_errors(response)
    if version >= _FIRST_SESSION:
        out = bytearray(_TOP_V7.pack(0, response.error_code, response.session_id))
    else:
        out = bytearray(_TOP_V4.pack(0))
    out += write_count(len(response.topics), flexible)
    middle = _middle(version, response.is_committed)
    for topic in response.topics:
        out += topic.topic_id if version >= FIRST_TOPIC_ID else write_string(topic.name, flexible)
        out += write_count(len(topic.partitions), flexible)
        for answer in topic.partitions:
            _encode_partition(out, answer, version, middle)
            if answer.records:
                buffers.append(out)
                buffers.extend(answer.records)
                out = bytearray()
            if flexible:
                out += b"\x00"
        if flexible:
            out += b"\x00"
    if flexible:
        out += b"\x00"
    if out:
        buffers.append(out)
    return buffers


def _without_storage_errors(response: FetchResponse) -> FetchResponse:
    """As Kafka says it to clients that do not know the error, nor that they may try again."""
    topics = [
        topic._replace(
            partitions=[
                answer._replace(error_code=NOT_LEADER_OR_FOLLOWER)
                if answer.error_code == KAFKA_STORAGE_ERROR
                else answer
                for answer in topic.partitions
            ]
        )
        for topic in response.topics
    ]
    return response._replace(topics=topics)


def _encode_partition(out: bytearray, answer: PartitionAnswer, version: int, middle: bytes) -> None:
    """Everything of a partition up to and with the size of its records."""
    if version >= _FIRST_LOG_START:
        out += _ANSWER_V5.pack(
            answer.partition,
            answer.error_code,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
        )
    else:
        out += _ANSWER_V4.pack(
            answer.partition,
            answer.error_code,
            answer.high_watermark,
            answer.last_stable_offset,
        )
    out += middle
    # Zero bytes of records, never null: Kafka's own clients take both, others only this (S13).
    out += uvarint(answer.size + 1) if version >= FIRST_FLEXIBLE else INT32.pack(answer.size)


def _middle(version: int, is_committed: bool) -> bytes:
    """aborted_transactions (never one, S14; null for read_uncommitted, as Kafka) and no replica."""
    if version >= FIRST_FLEXIBLE:
        aborted = b"\x01" if is_committed else b"\x00"
    else:
        aborted = _EMPTY_ARRAY if is_committed else _NULL_ARRAY
    return aborted + _NO_REPLICA if version >= _FIRST_RACK else aborted
