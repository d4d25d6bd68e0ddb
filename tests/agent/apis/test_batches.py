"""The answers to Produce and Fetch at every version that carries record batches."""

import pytest

from lacuna.agent.apis import k00_produce as produce
from lacuna.agent.apis import k01_fetch as fetch
from lacuna.agent.fetch.answers import READ_COMMITTED, READ_UNCOMMITTED, no_aborted
from lacuna.agent.fetch.answers import failed as failed_partition
from lacuna.agent.produce.check import failed
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages import fetch as wire
from lacuna.wire.messages.produce import (
    PRODUCE_RESPONSE,
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.agent.fetch.log import call_of
from tests.messages import read_exactly

VERSIONS = range(3, produce.API.max_version + 1)
TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_reads_what_produce_writes(version: int) -> None:
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


FETCH_VERSIONS = range(4, fetch.API.max_version + 1)


def answer(isolation_level: int) -> wire.FetchResponse:
    payload = (memoryview(b"first batch"), memoryview(b"second"))
    aborted = no_aborted(isolation_level)
    partitions = [
        wire.PartitionData(0, 0, 100, 90, 10, aborted_transactions=aborted, records=payload),
        wire.PartitionData(1, 0, 5, 5, 0, aborted_transactions=aborted),
        failed_partition(2, 3, isolation_level),
    ]
    return wire.FetchResponse(
        session_id=99, responses=[wire.FetchableTopicResponse("orders", TOPIC_ID, partitions)]
    )


@pytest.mark.parametrize("isolation_level", [READ_UNCOMMITTED, READ_COMMITTED])
@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_a_client_reads_what_fetch_writes(version: int, isolation_level: int) -> None:
    """S13: an empty result is zero bytes, not null. S14: aborted_transactions is empty."""
    body = b"".join(fetch.API.write(answer(isolation_level), version))
    read = read_exactly(wire.FETCH_RESPONSE, body, version)
    if version >= 7:
        assert (read.error_code, read.session_id) == (ErrorCode.NONE, 99)
    (topic,) = read.responses
    assert (topic.topic_id if version >= 13 else topic.topic) == (
        TOPIC_ID if version >= 13 else "orders"
    )
    full, empty, unknown = topic.partitions
    assert (full.partition_index, full.high_watermark, full.last_stable_offset) == (0, 100, 90)
    assert full.records == (b"first batchsecond",)
    assert (empty.partition_index, empty.records) == (1, ())
    assert (unknown.error_code, unknown.records) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    for partition in topic.partitions:
        assert partition.aborted_transactions == (() if isolation_level else None)
        if version >= 5:
            assert partition.log_start_offset == {0: 10, 1: 0, 2: -1}[partition.partition_index]
        if version >= 11:
            assert partition.preferred_read_replica == -1


def test_payload_goes_through_untouched() -> None:
    response = answer(READ_COMMITTED)
    buffers = fetch.API.write(response, 18)
    views = [buffer for buffer in buffers if isinstance(buffer, memoryview)]
    payload = response.responses[0].partitions[0].records or ()
    assert views[0] is payload[0]
    assert views[1] is payload[1]


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_clients_before_kip_112_are_not_told_of_a_storage_error(version: int) -> None:
    """As in Kafka, since a client that does not know the error would not retry."""
    request = wire.FetchRequest(topics=[wire.FetchTopic("t", TOPIC_ID, [wire.FetchPartition()])])
    refused = fetch.refuse(call_of(version), request, fetch.API.unavailable)
    body = b"".join(fetch.API.write(refused, version))
    read = read_exactly(wire.FETCH_RESPONSE, body, version)
    expected = ErrorCode.NOT_LEADER_OR_FOLLOWER if version < 6 else ErrorCode.KAFKA_STORAGE_ERROR
    assert read.responses[0].partitions[0].error_code == expected
