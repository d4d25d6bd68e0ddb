"""DescribeProducers: the recent producers of a partition (S21)."""

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.describe_producers import (
    DESCRIBE_PRODUCERS_REQUEST,
    DESCRIBE_PRODUCERS_RESPONSE,
    DescribeProducersRequest,
    TopicRequest,
)
from lacuna.wire.messages.init_producer_id import (
    INIT_PRODUCER_ID_REQUEST,
    INIT_PRODUCER_ID_RESPONSE,
    InitProducerIdRequest,
)
from lacuna.wire.messages.produce import (
    PRODUCE_REQUEST,
    PRODUCE_RESPONSE,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.agent.apis.clusters import Setup
from tests.agent.fetch.log import TIME, make_batch


async def test_s21_a_transactions_producer_is_described(setup: Setup) -> None:
    """The answer has its sequence and the start of its transaction; a missing partition has an error."""
    await setup.create("t", 2)
    producer = await setup.client.call(
        INIT_PRODUCER_ID_REQUEST,
        INIT_PRODUCER_ID_RESPONSE,
        4,
        InitProducerIdRequest("x", 60_000),
    )
    plain = make_batch(b"0")
    batch = make_batch(
        b"1", b"2", producer=(producer.producer_id, producer.producer_epoch), transactional=True
    )
    for transactional_id, records in ((None, plain), ("x", batch)):
        answer = await setup.client.call(
            PRODUCE_REQUEST,
            PRODUCE_RESPONSE,
            12,
            ProduceRequest(
                transactional_id,
                -1,
                1000,
                [
                    TopicProduceData(
                        "t", partition_data=[PartitionProduceData(0, memoryview(records))]
                    )
                ],
            ),
        )
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    described = await setup.client.call(
        DESCRIBE_PRODUCERS_REQUEST,
        DESCRIBE_PRODUCERS_RESPONSE,
        0,
        DescribeProducersRequest([TopicRequest("t", [0, 1, 2])]),
    )
    first, second, third = described.topics[0].partitions
    (state,) = first.active_producers
    assert (state.producer_id, state.producer_epoch) == (
        producer.producer_id,
        producer.producer_epoch,
    )
    assert (state.last_sequence, state.last_timestamp) == (1, TIME + 1)
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (1, -1)
    assert (second.error_code, second.active_producers) == (ErrorCode.NONE, ())
    assert third.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
