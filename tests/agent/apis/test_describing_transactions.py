"""DescribeProducers, DescribeTransactions and ListTransactions at every version, and their errors."""

import asyncio
import threading

import pytest

from lacuna.agent.api import Call
from lacuna.agent.apis import k65_describe_transactions as describe_transactions
from lacuna.agent.apis import k66_list_transactions as list_transactions
from lacuna.agent.apis.k66_list_transactions import compile_pattern
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import Agent
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.transactions_pb2 import (
    TransactionDescription,
    TransactionListing,
    TransactionsDescribed,
    TransactionsListed,
)
from lacuna.wire.messages import transactions as wire
from lacuna.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.agent.apis.clusters import Setup
from tests.agent.apis.scripted import Setup as ScriptedSetup
from tests.agent.fetch.log import TIME, make_batch
from tests.agent.harness import TOPIC_ID, anybody, client_of, snapshot
from tests.doubles.clock import until


async def test_s21_a_transactions_producer_is_described(setup: Setup) -> None:
    """The answer contains its sequence and the start of its transaction; a missing partition has an error."""
    await setup.create("t", 2)
    producer = await setup.client.call(4, wire.InitProducerIdRequest("x", 60_000))
    plain = make_batch(b"0")
    who = producer.producer_id, producer.producer_epoch
    batch = make_batch(b"1", b"2", producer=who, transactional=True)
    for transactional_id, records in ((None, plain), ("x", batch)):
        parts = [PartitionProduceData(0, memoryview(records))]
        topics = [TopicProduceData("t", partition_data=parts)]
        answer = await setup.client.call(12, ProduceRequest(transactional_id, -1, 1000, topics))
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    described = await setup.client.call(
        0, wire.DescribeProducersRequest([wire.TopicRequest("t", [0, 1, 2])])
    )
    first, second, third = described.topics[0].partitions
    (state,) = first.active_producers
    assert (state.producer_id, state.producer_epoch) == who
    assert (state.last_sequence, state.last_timestamp) == (1, TIME + 1)
    assert (state.current_txn_start_offset, state.coordinator_epoch) == (1, -1)
    assert (second.error_code, second.active_producers) == (ErrorCode.NONE, ())
    assert third.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_describe_transactions() -> None:
    """Tests rule S21."""
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
    setup = ScriptedSetup(describe_transactions=Reply(transactions_described=reply))
    answer = await setup.call(0, wire.DescribeTransactionsRequest(("x", "y", "")))
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
    setup = ScriptedSetup(describe_transactions=Reply(transactions_described=reply))
    call = Call(setup.context, anybody(), 0)
    response = await describe_transactions.handle(call, wire.DescribeTransactionsRequest(["x"]))
    (body,) = describe_transactions.API.write(response, 0)
    assert bytes(body).count(b"\xff" * 8) == 1


async def test_transactions_are_listed_by_one_agent_each() -> None:
    """Clients ask all agents and combine their answers."""
    names = [f"x{i}" for i in range(40)]
    listed = TransactionsListed(
        transactions=[TransactionListing(transactional_id=name, producer_id=1) for name in names],
        unknown_states=["Nonsense"],
    )
    agents = tuple(Agent(node_id=i, host="h", port=1, zone="ab"[i % 2]) for i in (1, 2, 3))
    found: list[str] = []
    for agent in agents:
        setup = ScriptedSetup(list_transactions=Reply(transactions_listed=listed))
        setup.control.cluster.apply(snapshot(agents=agents))
        setup.context.lease.node_id = agent.node_id
        answer = await setup.call(0, wire.ListTransactionsRequest(("Nonsense",)))
        assert answer.unknown_state_filters == ("Nonsense",)
        assert answer.transaction_states
        found += [each.transactional_id for each in answer.transaction_states]
    assert sorted(found) == sorted(names)


async def test_transactions_are_listed_by_pattern() -> None:
    listed = TransactionsListed(
        transactions=[TransactionListing(transactional_id=name) for name in ("ab", "ac", "xab")]
    )
    setup = ScriptedSetup(list_transactions=Reply(transactions_listed=listed))
    setup.context.lease.node_id = 1
    answer = await setup.call(2, wire.ListTransactionsRequest(transactional_id_pattern="a.*"))
    assert [each.transactional_id for each in answer.transaction_states] == ["ab", "ac"]
    answer = await setup.call(2, wire.ListTransactionsRequest(transactional_id_pattern="("))
    assert answer.error_code == 128


class HeldPattern:
    """A pattern that waits for `go_on` and then matches nothing."""

    programsize = 1

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.matched: list[str] = []

    def fullmatch(self, transactional_id: str) -> None:
        assert self.go_on.wait(60)
        self.matched.append(transactional_id)


def many_listed(count: int) -> Reply:
    listings = [TransactionListing(transactional_id=f"x{i}", producer_id=i) for i in range(count)]
    return Reply(transactions_listed=TransactionsListed(transactions=listings))


async def test_while_ids_are_matched_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = HeldPattern()
    monkeypatch.setattr(list_transactions, "compile_pattern", lambda _: pattern)
    setup = ScriptedSetup(list_transactions=many_listed(2))
    setup.context.lease.node_id = 1
    asked = wire.ListTransactionsRequest(transactional_id_pattern="x")
    listing = asyncio.ensure_future(setup.call(2, asked))
    try:
        await until(lambda: setup.control.calls, 0.001)
        async with client_of(setup.context) as client:
            assert (await client.ask(18, 0)).error_code == 0
        assert not pattern.matched
    finally:
        pattern.go_on.set()
    assert (await listing).transaction_states == ()
    assert pattern.matched == ["x0", "x1"]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_long_listing_is_whole_and_lets_others_in(version: int) -> None:
    setup = ScriptedSetup(list_transactions=many_listed(2001))
    setup.context.lease.node_id = 1
    answer = await setup.call(version, wire.ListTransactionsRequest())
    states = answer.transaction_states
    assert [(each.transactional_id, each.producer_id) for each in states] == [
        (f"x{i}", i) for i in range(2001)
    ]
    call = Call(setup.context, anybody(), version)
    listing = list_transactions.handle(call, wire.ListTransactionsRequest())
    turns = sum(1 for _ in listing.__await__())
    assert turns == 5


def test_ids_are_matched_in_slices_that_cost_about_the_same() -> None:
    sizes = [[36] * 4, [2000, 36, 36], [36, 2000], [36, 2001, 1]]
    slices = []
    for ids in sizes:
        listed = [TransactionListing(transactional_id="x" * size) for size in ids]
        found = list_transactions.slices(listed, 1000)
        slices.append([len(each) for each in found])
    assert slices == [[4], [1, 2], [1, 1], [1, 1, 1]]


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [
        (".*", True),
        ("a|b", True),
        ("(a|b)-[0-9]+", True),
        (r"a\.b\+c\+d\+e\+", True),
        ("(a*)*b", True),
        ("(a|a)+b", True),
        ("(?i)abc", True),
        (r"(a)\1", False),
        ("(?=a)b", False),
        ("x" * 5000, False),
        ("((a{100}){100}){100}", False),
        ("(.?){999}", False),
        ("[", False),
    ],
)
def test_patterns_are_those_of_re2(pattern: str, is_taken: bool) -> None:
    assert (compile_pattern(pattern) is not None) == is_taken
