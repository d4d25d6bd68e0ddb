"""DescribeTransactions over the wire: every version, and errors."""

from lacuna.agent.api import Call
from lacuna.agent.apis import k65_describe_transactions as describe_transactions
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.transactions_pb2 import (
    TransactionDescription,
    TransactionsDescribed,
)
from lacuna.wire.messages.describe_transactions import DescribeTransactionsRequest
from tests.agent.apis.scripted import Setup
from tests.agent.harness import (
    TOPIC_ID,
    anybody,
)


async def test_describe_transactions() -> None:
    """S21."""
    ongoing = TransactionDescription(
        transactional_id="x",
        state="Ongoing",
        transaction_timeout_ms=60_000,
        start_time_ms=1_700_000_000_000,
        producer_id=5,
        producer_epoch=3,
        offsets_partitions=[3, 7],
    )
    ongoing.partitions.add(topic_id=TOPIC_ID, partition=1)
    ongoing.partitions.add(topic_id=TOPIC_ID, partition=0)
    ongoing.partitions.add(topic_id=b"deleted".ljust(16), partition=0)
    missing = TransactionDescription(error_code=105)
    reply = TransactionsDescribed(transactions=[ongoing, missing, missing])
    setup = Setup(describe_transactions=Reply(transactions_described=reply))
    answer = await setup.ask(65, 0, transactional_ids=("x", "y", ""))
    first, second, third = answer.transaction_states
    assert (first.transaction_state, first.producer_id, first.producer_epoch) == ("Ongoing", 5, 3)
    assert [(topic.topic, topic.partitions) for topic in first.topics] == [
        ("__consumer_offsets", (3, 7)),
        ("t", (0, 1)),
    ]
    assert first.transaction_start_time_ms == 1_700_000_000_000
    assert (second.error_code, third.error_code) == (105, 42)


async def test_a_start_time_of_none_is_minus_1_on_the_wire() -> None:
    description = TransactionDescription(state="Empty", start_time_ms=-1, producer_id=5)
    reply = TransactionsDescribed(transactions=[description])
    setup = Setup(describe_transactions=Reply(transactions_described=reply))
    call = Call(setup.context, anybody(), 0)
    response = await describe_transactions.handle(call, DescribeTransactionsRequest(["x"]))
    (body,) = describe_transactions.API.write(response, 0)
    assert bytes(body).count(b"\xff" * 8) == 1
