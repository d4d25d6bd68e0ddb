"""`lacuna transactions`: list, describe, abort, blame."""

from collections.abc import Sequence
from typing import Annotated

from lacuna.agent.clock import SystemWallClock
from lacuna.cli.answers import check
from lacuna.cli.command_line import Group, argument, option
from lacuna.cli.console import asynchronous, print_done, print_line, table
from lacuna.cli.errors import fail
from lacuna.cli.options import DEFAULT_BOOTSTRAP, AskedPlace, Bootstrap
from lacuna.operating.blame import blame
from lacuna.operating.control import open_control
from lacuna.operating.exchanges.transactions import (
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from lacuna.operating.kafka import Agents, KafkaConnection, ask_every_agent
from lacuna.wire.messages import transactions as wire

app = Group(
    help="Lists, describes and aborts transactions, and shows which ones consumers are waiting for."
)

ONGOING = "Ongoing"
_IDS_AT_ONCE = 500

TransactionalId = Annotated[str, argument(help="The producer's transactional.id.")]


@app.adds("list", shows=True)
@asynchronous
async def list_transactions(
    is_open: Annotated[
        bool, option("--open", help="Only open transactions, with the time since each one began.")
    ] = False,
    state: Annotated[
        list[str] | None,
        option("--state", "-s", help="Only transactions in these states, for example Ongoing."),
    ] = None,
    longer_than_ms: Annotated[
        int,
        option(
            max=(1 << 63) - 1, help="Only transactions that have been open for longer than this."
        ),
    ] = -1,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Lists the transactional producers and the states of their transactions."""
    if is_open and state:
        fail("--open and --state both choose the states: use only one of them")
    states = [ONGOING] if is_open else state or ()
    responses = await ask_every_agent(
        bootstrap,
        *LIST_TRANSACTIONS,
        wire.ListTransactionsRequest(states, duration_filter=longer_than_ms),
    )
    for response in responses:
        check(response.error_code, "transactions")
        if response.unknown_state_filters:
            fail(
                f"unknown state {', '.join(response.unknown_state_filters)}: the states are Empty, "
                "Ongoing, CompleteCommit and CompleteAbort"
            )
    listed = sorted(
        (each.transactional_id, each.producer_id, each.transaction_state)
        for response in responses
        for each in response.transaction_states
    )
    if is_open:
        await _show_open(bootstrap, [each[0] for each in listed])
    else:
        table(("transactional id", "producer id", "state"), listed)


async def _show_open(bootstrap: Agents, ids: Sequence[str]) -> None:
    """Show open transactions, oldest first."""
    found: list[wire.TransactionState] = []
    now_ms = SystemWallClock().now_ms()
    async with KafkaConnection(bootstrap) as connection:
        for start in range(0, len(ids), _IDS_AT_ONCE):
            described = await connection.ask(
                *DESCRIBE_TRANSACTIONS,
                wire.DescribeTransactionsRequest(ids[start : start + _IDS_AT_ONCE]),
            )
            found += [
                each for each in described.transaction_states if each.transaction_state == ONGOING
            ]
    # If two transactions began in the same millisecond, the one whose producer has the lower id is older.
    found.sort(key=lambda each: (each.transaction_start_time_ms, each.producer_id))
    rows = [
        (
            each.transactional_id,
            each.producer_id,
            round(max(now_ms - each.transaction_start_time_ms, 0) / 1000, 1),
            round(each.transaction_timeout_ms / 1000, 1),
            ", ".join(sorted(topic.topic for topic in each.topics)),
        )
        for each in found
    ]
    table(("transactional id", "producer id", "open s", "timeout s", "topics"), rows)


@app.adds("describe", shows=True)
@asynchronous
async def describe_transaction(
    transactional_id: TransactionalId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Shows a transactional producer and the partitions of its ongoing transaction."""
    async with KafkaConnection(bootstrap) as connection:
        state = await _describe(connection, transactional_id)
    table(
        ("transactional id", "producer id", "epoch", "state", "timeout ms"),
        (
            (
                transactional_id,
                state.producer_id,
                state.producer_epoch,
                state.transaction_state,
                state.transaction_timeout_ms,
            ),
        ),
        name="transaction",
    )
    table(
        ("topic", "partitions"),
        ((topic.topic, ", ".join(str(p) for p in topic.partitions)) for topic in state.topics),
        name="partitions",
    )


@app.adds("abort", shows=True)
@asynchronous
async def abort_transaction(
    transactional_id: TransactionalId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Aborts the ongoing transaction of a producer in all its partitions, and fences that producer."""
    async with KafkaConnection(bootstrap) as connection:
        state = await _describe(connection, transactional_id)
        if state.transaction_state != ONGOING:
            fail(
                f"{transactional_id}: there is no transaction to abort; its state is {state.transaction_state}"
            )

        topics = [
            wire.WritableTxnMarkerTopic(topic.topic, topic.partitions) for topic in state.topics
        ]
        marker = wire.WritableTxnMarker(state.producer_id, state.producer_epoch, topics=topics)
        response = await connection.ask(*WRITE_TXN_MARKERS, wire.WriteTxnMarkersRequest([marker]))
    for topic in response.markers[0].topics:
        for partition in topic.partitions:
            check(partition.error_code, f"{transactional_id} on {topic.name}")
    print_done(
        f"aborted the transaction of {transactional_id}",
        transactional_id=transactional_id,
        producer_id=state.producer_id,
    )


@app.adds("blame", shows=True)
@asynchronous
async def blame_transactions(
    topic: Annotated[str, argument(help="Name of the topic.")],
    place: AskedPlace,
) -> None:
    """Shows the transactions that a topic's consumers are waiting for, and how many records their end would release.

    Each row shows a partition that is waiting for an open transaction: the transaction's producer, the time since the
    transaction began, the last stable offset, the cut at which an export of the topic ends, the number of waiting
    offsets, the number of records that a read_committed consumer would receive if the transaction committed or aborted
    now, and the groups that are waiting for it. The command queries the control plane through an agent.
    """
    async with open_control(place.control, place.data, place.bootstrap) as client:
        blamed = await blame(client, topic)
    now_ms = SystemWallClock().now_ms()
    if not blamed:
        print_line(f"no consumer of {topic} is waiting for an open transaction")
    table(
        (
            "partition",
            "transactional id",
            "open s",
            "timeout s",
            "last stable",
            "cut",
            "waiting",
            "own",
            "if committed",
            "if aborted",
            "groups",
        ),
        (
            (
                each.partition,
                each.transactional_id or f"producer {each.producer_id}",
                round(max(now_ms - each.start_time_ms, 0) / 1000, 1),
                round(each.timeout_ms / 1000, 1),
                each.last_stable_offset,
                each.cut,
                each.waiting,
                each.own,
                each.by_commit,
                each.by_abort,
                ", ".join(each.groups),
            )
            for each in blamed
        ),
    )


async def _describe(connection: KafkaConnection, transactional_id: str) -> wire.TransactionState:
    response = await connection.ask(
        *DESCRIBE_TRANSACTIONS, wire.DescribeTransactionsRequest([transactional_id])
    )
    (state,) = response.transaction_states
    check(state.error_code, f"transactional id {transactional_id}")
    return state
