"""Produce's codec against kio's schema, in both directions and at every version."""

import struct
import uuid
from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KafkaError
from kio.serial import entity_reader, entity_writer

from agent.produce import codec
from agent.wire import MalformedRequest

VERSIONS = range(codec.MIN_VERSION, codec.MAX_VERSION + 1)
TOPIC_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def kio_request(version: int, transactional_id: str | None, acks: int, records: Any) -> bytes:
    """A request for partitions 3 and 4 of one topic, written by kio."""
    module = import_module(f"kio.schema.produce.v{version}.request")
    name = {"topic_id": TOPIC_ID} if version >= 13 else {"name": "orders"}
    partitions = tuple(
        module.PartitionProduceData(index=index, records=data)
        for index, data in zip((3, 4), records, strict=True)
    )
    request = module.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=1500),
        topic_data=(module.TopicProduceData(partition_data=partitions, **name),),
    )
    buffer = BytesIO()
    entity_writer(module.ProduceRequest)(buffer, request)
    return buffer.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_decode_reads_what_the_schema_writes(version: int) -> None:
    body = kio_request(version, "txn", -1, (b"some records" * 30, None))
    request = codec.decode(memoryview(body), version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == ("txn", -1, 1500)
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == (
        ("", TOPIC_ID.bytes) if version >= 13 else ("orders", b"")
    )
    first, second = topic.partitions
    assert (first.partition, bytes(first.records or b"")) == (3, b"some records" * 30)
    assert (second.partition, second.records) == (4, None)


def test_records_are_a_view_of_the_request_and_no_copy() -> None:
    body = kio_request(9, None, 1, (b"payload", b""))
    records = codec.decode(memoryview(body), 9).topics[0].partitions[0].records
    assert records is not None
    assert records.obj is body


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_a_malformed_request(version: int) -> None:
    body = kio_request(version, "txn", 1, (b"abc", b""))
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


def test_an_array_longer_than_the_request_is_refused_before_it_is_read() -> None:
    body = struct.pack(">hhii", -1, 1, 100, 2**31 - 1)
    with pytest.raises(MalformedRequest, match="do not fit"):
        codec.decode(memoryview(body), 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_encode_writes_what_the_schema_reads(version: int) -> None:
    response = codec.ProduceResponse(
        [
            codec.TopicAnswer(
                "orders",
                TOPIC_ID.bytes,
                [
                    codec.PartitionAnswer(3, 0, 77, 1_700_000_000_000, 5),
                    codec.PartitionAnswer(
                        4, 87, record_errors=(codec.RecordError(2, "no key"),), error_message="bad"
                    ),
                ],
            )
        ]
    )
    module = import_module(f"kio.schema.produce.v{version}.response")
    body = b"".join(codec.encode(response, version))
    read, size = entity_reader(module.ProduceResponse)(body, 0)
    assert size == len(body)
    (topic,) = read.responses
    assert (topic.topic_id if version >= 13 else topic.name) == (
        TOPIC_ID if version >= 13 else "orders"
    )
    first, second = topic.partition_responses
    assert (first.index, first.error_code, first.base_offset) == (3, KafkaError.none, 77)
    assert first.log_append_time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert second.error_code == KafkaError.invalid_record
    assert (second.base_offset, second.log_append_time) == (-1, None)
    if version >= 5:
        assert (first.log_start_offset, second.log_start_offset) == (5, -1)
    if version >= 8:
        assert (first.record_errors, first.error_message) == ((), None)
        (record_error,) = second.record_errors
        assert (record_error.batch_index, record_error.batch_index_error_message) == (2, "no key")
        assert second.error_message == "bad"
