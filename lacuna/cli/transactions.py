"""`lacuna transactions`: list, describe, abort."""

from typing import Annotated, Any

import typer
from kio.static.primitive import i16, i32, i64

from lacuna.cli.answers import check
from lacuna.cli.console import asynchronous, table, tell
from lacuna.cli.errors import fail
from lacuna.cli.lazy import MARKUP
from lacuna.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from lacuna.cli.topics import schema_module
from lacuna.kafka import KafkaConnection, ask_every_agent

WRITE_TXN_MARKERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 27, 65, 66

app = typer.Typer(
    help="List, describe and abort transactions.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=MARKUP,
)

TransactionalId = Annotated[
    str, typer.Argument(help="The producer's transactional.id.", show_default=False)
]


@app.command("list")
@asynchronous
async def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", "-s", help="Only these states, for example Ongoing."),
    ] = None,
    longer_than_ms: Annotated[
        int,
        typer.Option(max=(1 << 63) - 1, help="Only transactions that have been open for longer."),
    ] = -1,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Lists the transactional producers and the states of their transactions."""
    responses = await ask_every_agent(
        bootstrap,
        LIST_TRANSACTIONS,
        1,
        lambda request: request(
            state_filters=tuple(state or ()), duration_filter=i64(longer_than_ms)
        ),
    )
    for response in responses:
        check(response.error_code, "transactions")
        if response.unknown_state_filters:
            fail(
                f"no such state: {', '.join(response.unknown_state_filters)}; "
                "there are Empty, Ongoing, CompleteCommit and CompleteAbort"
            )
    rows = (
        (found.transactional_id, int(found.producer_id), found.transaction_state)
        for response in responses
        for found in response.transaction_states
    )
    table(("transactional id", "producer id", "state"), sorted(rows))


@app.command("describe")
@asynchronous
async def describe_transaction(
    transactional_id: TransactionalId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Shows a transactional producer and the partitions of its ongoing transaction."""
    async with KafkaConnection(bootstrap) as connection:
        found = await _describe(connection, transactional_id)
    table(
        ("transactional id", "producer id", "epoch", "state", "timeout ms"),
        (
            (
                transactional_id,
                int(found.producer_id),
                int(found.producer_epoch),
                found.transaction_state,
                round(found.transaction_timeout.total_seconds() * 1000),
            ),
        ),
    )
    table(
        ("topic", "partitions"),
        ((topic.topic, ", ".join(str(int(p)) for p in topic.partitions)) for topic in found.topics),
    )


@app.command("abort")
@asynchronous
async def abort_transaction(
    transactional_id: TransactionalId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
) -> None:
    """Aborts the ongoing transaction of a producer, whole, and fences that producer."""
    async with KafkaConnection(bootstrap) as connection:
        found = await _describe(connection, transactional_id)
        if found.transaction_state != "Ongoing":
            fail(f"{transactional_id}: nothing to abort, its state is {found.transaction_state}")

        def build(request: Any) -> Any:
            module = schema_module(request)
            topics = tuple(
                module.WritableTxnMarkerTopic(name=topic.topic, partition_indexes=topic.partitions)
                for topic in found.topics
            )
            marker = module.WritableTxnMarker(
                producer_id=found.producer_id,
                producer_epoch=i16(found.producer_epoch),
                transaction_result=False,
                topics=topics,
                coordinator_epoch=i32(0),
            )
            return request(markers=(marker,))

        response = await connection.request(WRITE_TXN_MARKERS, 1, build)
    for topic in response.markers[0].topics:
        for partition in topic.partitions:
            check(partition.error_code, f"{transactional_id} on {topic.name}")
    tell(f"aborted the transaction of {transactional_id}")


async def _describe(connection: KafkaConnection, transactional_id: str) -> Any:
    response = await connection.request(
        DESCRIBE_TRANSACTIONS, 0, lambda request: request(transactional_ids=(transactional_id,))
    )
    (found,) = response.transaction_states
    check(found.error_code, f"transactional id {transactional_id}")
    return found
