"""Produce's answers at every version that its batches have."""

import pytest

from lacuna.agent.apis import k00_produce as produce
from lacuna.agent.produce.check import failed
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.produce import (
    PRODUCE_RESPONSE,
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.messages import read_exactly

VERSIONS = range(3, produce.API.max_version + 1)
TOPIC_ID = bytes(range(16))


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
