"""Fetch's codec against kio's schema, in both directions and at every version."""

import uuid
from datetime import timedelta
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KafkaError
from kio.serial import entity_reader, entity_writer

from agent.fetch import codec
from agent.wire import MalformedRequest

VERSIONS = range(codec.MIN_VERSION, codec.MAX_VERSION + 1)
TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def make(module: Any, name: str, values: dict[str, Any]) -> Any:
    """A kio value with those of `values` that its version has."""
    cls = getattr(module, name)
    return cls(**{key: value for key, value in values.items() if key in cls.__dataclass_fields__})


def kio_request(version: int) -> bytes:
    """Two partitions of one topic, and one that is forgotten."""
    module = import_module(f"kio.schema.fetch.v{version}.request")
    key = {"topic": "orders", "topic_id": TOPIC_ID}
    partitions = tuple(
        make(
            module,
            "FetchPartition",
            {
                "partition": index,
                "current_leader_epoch": 7,
                "fetch_offset": 1000 + index,
                "log_start_offset": 9,
                "last_fetched_epoch": 8,
                "partition_max_bytes": 4096,
                "replica_directory_id": TOPIC_ID if index == 1 else None,
            },
        )
        for index in (0, 1)
    )
    values: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": timedelta(milliseconds=500),
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 1,
        "session_id": 12,
        "session_epoch": 3,
        "topics": (make(module, "FetchTopic", {**key, "partitions": partitions}),),
        "rack_id": "a",
    }
    if version >= 7:
        forgotten = make(module, "ForgottenTopic", {**key, "partitions": (5, 6)})
        values["forgotten_topics_data"] = (forgotten,)
    buffer = BytesIO()
    entity_writer(module.FetchRequest)(buffer, make(module, "FetchRequest", values))
    return buffer.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_decode_reads_what_the_schema_writes(version: int) -> None:
    request = codec.decode(memoryview(kio_request(version)), version)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1 << 20)
    assert request.isolation_level == codec.READ_COMMITTED
    expected = (12, 3) if version >= 7 else (codec.NO_SESSION, codec.FINAL_EPOCH)
    assert (request.session_id, request.session_epoch) == expected
    name, topic_id = ("", TOPIC_ID.bytes) if version >= 13 else ("orders", b"")
    epoch = 7 if version >= 9 else codec.NO_LEADER_EPOCH
    assert request.topics == [
        (name, topic_id, [(0, 1000, 4096, epoch), (1, 1001, 4096, epoch)]),
    ]
    assert request.forgotten == ([(name, topic_id, [5, 6])] if version >= 7 else [])
    assert request.rack_id == ("a" if version >= 11 else "")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_a_malformed_request(version: int) -> None:
    body = kio_request(version)
    for size in range(len(body)):
        with pytest.raises(MalformedRequest):
            codec.decode(memoryview(body[:size]), version)
    with pytest.raises(MalformedRequest):
        codec.decode(memoryview(body + b"\x00"), version)


@given(data=st.binary(max_size=80), version=st.sampled_from(VERSIONS))
def test_any_bytes_are_decoded_or_refused(data: bytes, version: int) -> None:
    try:
        request = codec.decode(memoryview(data), version)
    except MalformedRequest:
        return
    assert request.version == version


def answer(is_committed: bool) -> codec.FetchResponse:
    payload = (memoryview(b"first batch"), memoryview(b"second"))
    return codec.FetchResponse(
        0,
        99,
        [
            codec.TopicAnswer(
                "orders",
                TOPIC_ID.bytes,
                [
                    codec.PartitionAnswer(0, 0, 100, 90, 10, payload, 17),
                    codec.PartitionAnswer(1, 0, 5, 5, 0),
                    codec.PartitionAnswer(2, 3),
                ],
            )
        ],
        is_committed,
    )


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("version", VERSIONS)
def test_encode_writes_what_the_schema_reads(version: int, is_committed: bool) -> None:
    """S13: nothing is zero bytes, not null. S14: aborted_transactions is empty."""
    module = import_module(f"kio.schema.fetch.v{version}.response")
    body = b"".join(codec.encode(answer(is_committed), version))
    read, size = entity_reader(module.FetchResponse)(body, 0)
    assert size == len(body)
    if version >= 7:
        assert (read.error_code, read.session_id) == (KafkaError.none, 99)
    (topic,) = read.responses
    assert (topic.topic_id if version >= 13 else topic.topic) == (
        TOPIC_ID if version >= 13 else "orders"
    )
    full, empty, unknown = topic.partitions
    assert (full.partition_index, full.high_watermark, full.last_stable_offset) == (0, 100, 90)
    assert full.records == b"first batchsecond"
    assert (empty.partition_index, empty.records) == (1, b"")
    assert (unknown.error_code, unknown.records) == (KafkaError.unknown_topic_or_partition, b"")
    for partition in topic.partitions:
        assert partition.aborted_transactions == (() if is_committed else None)
        if version >= 5:
            assert partition.log_start_offset == {0: 10, 1: 0, 2: -1}[partition.partition_index]
        if version >= 11:
            assert partition.preferred_read_replica == -1


def test_payload_goes_through_untouched() -> None:
    response = answer(True)
    buffers = codec.encode(response, 18)
    views = [buffer for buffer in buffers if isinstance(buffer, memoryview)]
    assert views[0] is response.topics[0].partitions[0].records[0]
    assert views[1] is response.topics[0].partitions[0].records[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_clients_before_kip_112_are_not_told_of_a_storage_error(version: int) -> None:
    """As Kafka: one that does not know the error would not try again."""
    module = import_module(f"kio.schema.fetch.v{version}.response")
    told = codec.PartitionAnswer(0, codec.KAFKA_STORAGE_ERROR)
    response = codec.FetchResponse(0, 0, [codec.TopicAnswer("t", TOPIC_ID.bytes, [told])], True)
    read, _ = entity_reader(module.FetchResponse)(b"".join(codec.encode(response, version)), 0)
    expected = KafkaError.not_leader_or_follower if version < 6 else KafkaError.kafka_storage_error
    assert read.responses[0].partitions[0].error_code == expected
