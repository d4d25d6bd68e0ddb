"""The APIs of transactions: what is asked of the control plane, and errors by version."""

import asyncio
import datetime
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.apis import list_transactions
from agent.apis.list_transactions import compile_pattern
from agent.apis.registry import (
    KAFKA_4_1,
    Peer,
    discover,
    kio_reader,
    response_header_version,
)
from agent.apis.schema import build, build_for, request_class, response_class
from agent.wire import MalformedRequest
from controlplane.errors import ErrorCode
from controlplane.v1.cluster_pb2 import Agent, Topic
from controlplane.v1.control_pb2 import Command, Reply
from controlplane.v1.log_pb2 import PartitionsRead
from controlplane.v1.transactions_pb2 import (
    OffsetsAddedToTxn,
    PartitionsAddedToTxn,
    ProducerIdInitialized,
    TransactionDescription,
    TransactionListing,
    TransactionsDescribed,
    TransactionsListed,
    TxnAborted,
    TxnEnded,
)
from tests.agent.harness import (
    TOPIC_ID,
    RawClient,
    ScriptedControl,
    encode_body,
    make_context,
    nested,
    serving,
    snapshot,
)

INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90
TRANSACTION = {"transactional_id": "x", "producer_id": 5, "producer_epoch": 3}


class Setup:
    def __init__(self, **answers: Reply | Callable[[Command], Reply]) -> None:
        self.control = ScriptedControl()
        topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=2)
        self.control.cluster.apply(snapshot(topic))
        self.control.answers.update(answers)
        self.context = make_context(self.control)

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        async with serving(self.context) as server:
            client = await RawClient.connect(server.port)
            try:
                return await client.ask(api_key, version, **fields)
            finally:
                await client.close()

    def commands(self, verb: str) -> list[Any]:
        return [getattr(call, verb) for call in self.control.calls if call.HasField(verb)]


def fences(first: int, version: int) -> int:
    """What a fenced producer hears: the newer error from `first` on (KIP-588)."""
    return PRODUCER_FENCED if version >= first else INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("version", range(6))
async def test_end_txn(version: int, code: int) -> None:
    """S9: v5 bumps and says the new epoch; with an error -1, -1."""
    ended = TxnEnded(producer_id=5, producer_epoch=4)
    setup = Setup(end_txn=Reply(txn_ended=ended))
    answer = await setup.ask(26, version, **TRANSACTION, committed=True)
    (command,) = setup.commands("end_txn")
    assert command.committed
    assert command.bumps_epoch == (version >= 5)
    assert answer.error_code == 0
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (5, 4)
    failed = Setup(end_txn=Reply(txn_ended=TxnEnded(error_code=code, producer_id=5)))
    answer = await failed.ask(26, version, **TRANSACTION, committed=False)
    assert answer.error_code == fences(2, version)
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", range(5))
async def test_add_offsets_to_txn(version: int) -> None:
    code = int(ErrorCode.PRODUCER_FENCED)
    setup = Setup(add_offsets_to_txn=Reply(offsets_added_to_txn=OffsetsAddedToTxn(error_code=code)))
    answer = await setup.ask(25, version, **TRANSACTION, group_id="g")
    assert answer.error_code == fences(2, version)
    assert setup.commands("add_offsets_to_txn")[0].group_id == "g"


@pytest.mark.parametrize("version", range(6))
async def test_init_producer_id(version: int) -> None:
    """S8: the id and epoch that a producer gives (KIP-360) go along from v3 on."""
    initialized = ProducerIdInitialized(producer_id=5, producer_epoch=4)
    setup = Setup(init_producer_id=Reply(producer_id_initialized=initialized))
    fields: dict[str, Any] = {
        "transactional_id": "x",
        "transaction_timeout": datetime.timedelta(seconds=9),
    }
    if version >= 3:
        fields |= {"producer_id": 5, "producer_epoch": 3}
    answer = await setup.ask(22, version, **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 5, 4)
    (command,) = setup.commands("init_producer_id")
    assert (command.producer_id, command.producer_epoch) == ((5, 3) if version >= 3 else (-1, -1))
    assert command.transaction_timeout_ms == 9000
    assert command.has_transactional_id
    code = int(ErrorCode.PRODUCER_FENCED)
    failed = Setup(
        init_producer_id=Reply(producer_id_initialized=ProducerIdInitialized(error_code=code))
    )
    answer = await failed.ask(22, version, **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (
        fences(4, version),
        -1,
        -1,
    )


def codes_of(topics: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, each.partition_index, each.partition_error_code)
        for topic in topics
        for each in topic.results_by_partition
    ]


@pytest.mark.parametrize("version", range(4))
async def test_add_partitions_to_txn(version: int) -> None:
    code = int(ErrorCode.PRODUCER_FENCED)
    setup = Setup(
        add_partitions_to_txn=Reply(partitions_added_to_txn=PartitionsAddedToTxn(error_code=code))
    )

    def fields(*topics: tuple[str, tuple[int, ...]]) -> dict[str, Any]:
        return {
            "v3_and_below_transactional_id": "x",
            "v3_and_below_producer_id": 5,
            "v3_and_below_producer_epoch": 3,
            "v3_and_below_topics": tuple(
                nested(24, version, "AddPartitionsToTxnTopic", name=name, partitions=partitions)
                for name, partitions in topics
            ),
        }

    answer = await setup.ask(24, version, **fields(("t", (0, 1))))
    fenced = fences(2, version)
    assert codes_of(answer.results_by_topic_v3_and_below) == [("t", 0, fenced), ("t", 1, fenced)]
    (command,) = setup.commands("add_partitions_to_txn")
    assert [(each.topic_id, each.partition) for each in command.partitions] == [
        (TOPIC_ID, 0),
        (TOPIC_ID, 1),
    ]
    answer = await setup.ask(24, version, **fields(("t", (0, 9)), ("nope", (0,))))
    assert codes_of(answer.results_by_topic_v3_and_below) == [
        ("t", 0, 55),
        ("t", 9, 3),
        ("nope", 0, 3),
    ]
    assert len(setup.commands("add_partitions_to_txn")) == 1


async def test_a_partition_that_another_agent_has_just_made_is_added() -> None:
    """librdkafka gives a transaction up that a new partition and an old one are added to, if one is unknown."""
    setup = Setup(add_partitions_to_txn=Reply(partitions_added_to_txn=PartitionsAddedToTxn()))

    def come(_: Command) -> Reply:
        topic = Topic(topic_id=TOPIC_ID, name="t", partition_count=3)
        setup.control.cluster.apply(snapshot(topic))
        return Reply(partitions_read=PartitionsRead())

    setup.control.answers["read_partitions"] = come
    topic = nested(24, 3, "AddPartitionsToTxnTopic", name="t", partitions=(0, 2))
    for _ in range(2):
        answer = await setup.ask(
            24,
            3,
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=5,
            v3_and_below_producer_epoch=3,
            v3_and_below_topics=(topic,),
        )
        assert codes_of(answer.results_by_topic_v3_and_below) == [("t", 0, 0), ("t", 2, 0)]
    assert len(setup.commands("read_partitions")) == 1


@pytest.mark.parametrize("version", [4, 5])
async def test_add_partitions_to_txn_in_batches(version: int) -> None:
    """Each transaction fails alone."""

    def decide(command: Command) -> Reply:
        asked = command.add_partitions_to_txn
        codes = [120 if asked.verify_only else 0] * len(asked.partitions)
        return Reply(partitions_added_to_txn=PartitionsAddedToTxn(error_codes=codes))

    setup = Setup(add_partitions_to_txn=decide)
    topics = (nested(24, version, "AddPartitionsToTxnTopic", name="t", partitions=(1,)),)
    transactions = tuple(
        nested(
            24,
            version,
            "AddPartitionsToTxnTransaction",
            transactional_id=name,
            producer_id=5,
            producer_epoch=0,
            verify_only=name == "v",
            topics=topics,
        )
        for name in ("a", "v")
    )
    answer = await setup.ask(24, version, transactions=transactions)
    found = {
        each.transactional_id: codes_of(each.topic_results)
        for each in answer.results_by_transaction
    }
    assert found == {"a": [("t", 1, 0)], "v": [("t", 1, 120)]}


async def test_markers_from_outside_abort_and_never_commit() -> None:
    """S21."""
    setup = Setup(abort_txn=Reply(txn_aborted=TxnAborted()))

    async def mark(commit: bool, name: str = "t") -> int:
        topic = nested(27, 1, "WritableTxnMarkerTopic", name=name, partition_indexes=(0,))
        marker = nested(
            27,
            1,
            "WritableTxnMarker",
            producer_id=5,
            producer_epoch=3,
            transaction_result=commit,
            topics=(topic,),
            coordinator_epoch=0,
        )
        answer = await setup.ask(27, 1, markers=(marker,))
        return int(answer.markers[0].topics[0].partitions[0].error_code)

    assert await mark(commit=True) == 52
    assert await mark(commit=False, name="nope") == 3
    assert setup.commands("abort_txn") == []
    assert await mark(commit=False) == 0
    (command,) = setup.commands("abort_txn")
    assert (command.producer_id, command.producer_epoch) == (5, 3)


async def test_describe_transactions() -> None:
    """S21. A start time of -1 is sent as Kafka does, though kio cannot read it back."""
    ongoing = TransactionDescription(
        transactional_id="x",
        state="Ongoing",
        transaction_timeout_ms=60_000,
        start_time_ms=1_700_000_000_000,
        producer_id=5,
        producer_epoch=3,
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
    assert [(topic.topic, topic.partitions) for topic in first.topics] == [("t", (0, 1))]
    assert first.transaction_start_time.timestamp() == 1_700_000_000
    assert (second.error_code, third.error_code) == (105, 42)


def test_a_start_time_of_none_is_minus_1_on_the_wire() -> None:
    from agent.apis.describe_transactions import API, _state

    request = request_class(65, 0)(transactional_ids=("x",))
    description = TransactionDescription(state="Empty", start_time_ms=-1, producer_id=5)
    context = make_context(ScriptedControl())
    state = _state(context, request, description, "x")
    response = build(request, "DescribeTransactionsResponse", transaction_states=(state,))
    (body,) = API.write(response, 0)
    assert bytes(body).count(b"\xff" * 8) == 1


async def test_transactions_are_listed_by_one_agent_each() -> None:
    """Clients ask all agents and add up what they hear."""
    names = [f"x{i}" for i in range(40)]
    listed = TransactionsListed(
        transactions=[TransactionListing(transactional_id=name, producer_id=1) for name in names],
        unknown_states=["Nonsense"],
    )
    agents = tuple(Agent(node_id=i, host="h", port=1, zone="ab"[i % 2]) for i in (1, 2, 3))
    found: list[str] = []
    for agent in agents:
        setup = Setup(list_transactions=Reply(transactions_listed=listed))
        setup.control.cluster.apply(snapshot(agents=agents))
        setup.context.lease.node_id = agent.node_id
        answer = await setup.ask(66, 0, state_filters=("Nonsense",), producer_id_filters=())
        assert answer.unknown_state_filters == ("Nonsense",)
        assert answer.transaction_states
        found += [each.transactional_id for each in answer.transaction_states]
    assert sorted(found) == sorted(names)


async def test_transactions_are_listed_by_pattern() -> None:
    listed = TransactionsListed(
        transactions=[TransactionListing(transactional_id=name) for name in ("ab", "ac", "xab")]
    )
    setup = Setup(list_transactions=Reply(transactions_listed=listed))
    setup.context.lease.node_id = 1
    fields: dict[str, Any] = {
        "state_filters": (),
        "producer_id_filters": (),
        "duration_filter": -1,
    }
    answer = await setup.ask(66, 2, **fields, transactional_id_pattern="a.*")
    assert [each.transactional_id for each in answer.transaction_states] == ["ab", "ac"]
    answer = await setup.ask(66, 2, **fields, transactional_id_pattern="(")
    assert answer.error_code == 128


class HeldPattern:
    """Matches nothing, and that only once `go_on` is set."""

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
    setup = Setup(list_transactions=many_listed(2))
    setup.context.lease.node_id = 1
    listing = asyncio.ensure_future(
        setup.ask(
            66,
            2,
            state_filters=(),
            producer_id_filters=(),
            duration_filter=-1,
            transactional_id_pattern="x",
        )
    )
    try:
        while not setup.control.calls:
            await asyncio.sleep(0.001)
        async with serving(setup.context) as server:
            client = await RawClient.connect(server.port)
            assert (await client.ask(18, 0)).error_code == 0
            await client.close()
        assert not pattern.matched
    finally:
        pattern.go_on.set()
    assert (await listing).transaction_states == ()
    assert pattern.matched == ["x0", "x1"]


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_long_listing_is_whole_and_lets_others_in(version: int) -> None:
    setup = Setup(list_transactions=many_listed(2001))
    setup.context.lease.node_id = 1
    fields: dict[str, Any] = {"state_filters": (), "producer_id_filters": ()}
    if version >= 1:
        fields["duration_filter"] = -1
    if version >= 2:
        fields["transactional_id_pattern"] = None
    answer = await setup.ask(66, version, **fields)
    states = answer.transaction_states
    assert [(each.transactional_id, each.producer_id) for each in states] == [
        (f"x{i}", i) for i in range(2001)
    ]
    request = request_class(66, version)(**fields)
    listing = list_transactions.handle(setup.context, request, Peer(host="h", port=1))
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


def test_answers_are_built_at_the_version_of_the_request() -> None:
    request = request_class(26, 0)(**TRANSACTION, committed=True)
    answer = build(request, "EndTxnResponse", error_code=3, producer_id=1)
    assert type(answer) is response_class(26, 0)
    with pytest.raises(TypeError, match="no version of EndTxnResponse has a field 'epoch'"):
        build(request, "EndTxnResponse", error_code=3, epoch=1)
    with pytest.raises(TypeError, match="no class 'Nope'"):
        build_for(26, 0, "Nope", {})


def test_every_advertised_version_has_a_reader_and_header_versions() -> None:
    for key, (low, high) in KAFKA_4_1.items():
        for version in range(max(low, 3) if key == 0 else low, high + 1):
            assert callable(kio_reader(key, version))
            assert response_header_version(key, version) in (0, 1)


@pytest.mark.parametrize("tags", [b"\x01\x7f\x03abc", b"\x02\x05\x00\x7f\x01x"])
def test_unknown_tagged_fields_are_skipped(tags: bytes) -> None:
    """KIP-482, at the end of the request and of what is nested in it."""
    for key, version, fields in ((26, 4, {"committed": True}), (25, 3, {"group_id": "g"})):
        api = discover().get(key, version)
        assert api is not None
        body = encode_body(request_class(key, version)(**TRANSACTION, **fields))
        assert api.read(memoryview(body[:-1] + tags), version) == api.read(
            memoryview(body), version
        )
    topic = nested(37, 2, "CreatePartitionsTopic", name="t", count=7, assignments=None)
    growth = request_class(37, 2)(
        topics=(topic,), timeout=datetime.timedelta(seconds=1), validate_only=True
    )
    body = encode_body(growth)
    assert body.startswith(b"\2\2t\0\0\0\7\0\0")
    longer = body[:8] + tags + body[9:-1] + tags
    api = discover().get(37, 2)
    assert api is not None
    assert api.read(memoryview(longer), 2) == growth
    with pytest.raises(MalformedRequest):
        api.read(memoryview(longer[:-1]), 2)
