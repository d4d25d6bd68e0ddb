"""Produce's messages, in both directions and at every version that its batches have."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.agent.api import MalformedRequest
from lacuna.agent.apis import k00_produce as produce
from lacuna.agent.produce.check import failed
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.layout import ZERO_UUID
from lacuna.wire.messages.produce import (
    PRODUCE_REQUEST,
    PRODUCE_RESPONSE,
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tests.messages import read_exactly

VERSIONS = range(3, produce.API.max_version + 1)
TOPIC_ID = bytes(range(16))


def request_body(
    version: int, transactional_id: str | None, acks: int, records: tuple[bytes, bytes | None]
) -> bytes:
    """A request for partitions 3 and 4 of one topic."""
    partitions = tuple(
        PartitionProduceData(index, None if data is None else memoryview(data))
        for index, data in zip((3, 4), records, strict=True)
    )
    topics = (TopicProduceData("orders", TOPIC_ID, partitions),)
    return PRODUCE_REQUEST.write(ProduceRequest(transactional_id, acks, 1500, topics), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_decode_reads_what_a_client_writes(version: int) -> None:
    body = request_body(version, "txn", -1, (b"some records" * 30, None))
    request = produce.API.read(memoryview(body), version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == ("txn", -1, 1500)
    (topic,) = request.topic_data
    assert (topic.name, topic.topic_id) == (
        ("", TOPIC_ID) if version >= 13 else ("orders", ZERO_UUID)
    )
    first, second = topic.partition_data
    assert (first.index_, bytes(first.records or b"")) == (3, b"some records" * 30)
    assert (second.index_, second.records) == (4, None)


def test_records_are_a_view_of_the_request_and_no_copy() -> None:
    body = request_body(9, None, 1, (b"payload", b""))
    records = produce.API.read(memoryview(body), 9).topic_data[0].partition_data[0].records
    assert records is not None
    assert records.obj is body


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_a_malformed_request(version: int) -> None:
    body = request_body(version, "txn", 1, (b"abc", b""))
    for size in range(len(body)):
        with pytest.raises(MalformedRequest):
            produce.API.read(memoryview(body[:size]), version)
    with pytest.raises(MalformedRequest):
        produce.API.read(memoryview(body + b"\x00"), version)


@given(data=st.binary(max_size=80), version=st.sampled_from(VERSIONS))
def test_any_bytes_are_decoded_or_refused(data: bytes, version: int) -> None:
    try:
        request = produce.API.read(memoryview(data), version)
    except MalformedRequest:
        return
    assert type(request) is ProduceRequest


def test_an_array_longer_than_the_request_is_refused_before_it_is_read() -> None:
    body = struct.pack(">hhii", -1, 1, 100, 2**31 - 1)
    with pytest.raises(MalformedRequest, match="elements, more than"):
        produce.API.read(memoryview(body), 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_encode_writes_what_a_client_reads(version: int) -> None:
    partitions = [
        PartitionProduceResponse(3, 0, 77, 1_700_000_000_000, 5),
        failed(4, 87, "bad", [BatchIndexAndErrorMessage(2, "no key")]),
    ]
    response = ProduceResponse([TopicProduceResponse("orders", TOPIC_ID, partitions)])
    body = b"".join(produce.API.write(response, version))
    read = read_exactly(PRODUCE_RESPONSE, body, version)
    (topic,) = read.responses
    assert (topic.topic_id if version >= 13 else topic.name) == (
        TOPIC_ID if version >= 13 else "orders"
    )
    first, second = topic.partition_responses
    assert (first.index_, first.error_code, first.base_offset) == (3, ErrorCode.NONE, 77)
    assert first.log_append_time_ms == 1_700_000_000_000
    assert second.error_code == ErrorCode.INVALID_RECORD
    assert (second.base_offset, second.log_append_time_ms) == (-1, -1)
    if version >= 5:
        assert (first.log_start_offset, second.log_start_offset) == (5, -1)
    if version >= 8:
        assert (first.record_errors, first.error_message) == ((), None)
        (record_error,) = second.record_errors
        assert (record_error.batch_index, record_error.batch_index_error_message) == (2, "no key")
        assert second.error_message == "bad"
