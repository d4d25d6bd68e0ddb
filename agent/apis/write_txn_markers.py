"""WriteTxnMarkers v1.

In Kafka a coordinator tells brokers of an outcome, and an operator's tool may end a hanging transaction.
Here outcomes are the control plane's alone (S21): an abort from outside aborts the *whole* transaction of
that producer id and epoch and bumps its epoch, whichever partitions it names; a commit is refused with
TRANSACTION_COORDINATOR_FENCED: nobody else may decide that. What does not exist is
UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from agent.apis.transactions import find_topic
from controlplane.v1.control_pb2 import Command
from controlplane.v1.transactions_pb2 import AbortTxn

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command an aborting marker that names a partition which exists."""
    results = []
    for marker in request.markers:
        exists = {
            (topic.name, partition): find_topic(context, topic.name, partition) is not None
            for topic in marker.topics
            for partition in topic.partition_indexes
        }
        code = await _end(context, marker) if any(exists.values()) else 0
        unknown = int(KafkaError.unknown_topic_or_partition)
        codes = {pair: code if found else unknown for pair, found in exists.items()}
        results.append(_result(request, marker, codes))
    return build(request, "WriteTxnMarkersResponse", markers=tuple(results))


def refuse(request: Any, error_code: int) -> Any:
    """The error for every partition."""
    results = []
    for marker in request.markers:
        pairs = [(topic.name, each) for topic in marker.topics for each in topic.partition_indexes]
        results.append(_result(request, marker, dict.fromkeys(pairs, error_code)))
    return build(request, "WriteTxnMarkersResponse", markers=tuple(results))


async def _end(context: "AgentContext", marker: Any) -> int:
    if marker.transaction_result:
        return int(KafkaError.transaction_coordinator_fenced)
    command = AbortTxn(producer_id=marker.producer_id, producer_epoch=marker.producer_epoch)
    return (await context.control.call(Command(abort_txn=command))).txn_aborted.error_code


def _result(request: Any, marker: Any, codes: dict[tuple[str, int], int]) -> Any:
    return build(
        request,
        "WritableTxnMarkerResult",
        producer_id=marker.producer_id,
        topics=tuple(
            build(
                request,
                "WritableTxnMarkerTopicResult",
                name=topic.name,
                partitions=tuple(
                    build(
                        request,
                        "WritableTxnMarkerPartitionResult",
                        partition_index=partition,
                        error_code=codes[topic.name, partition],
                    )
                    for partition in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )


API = Api(
    key=27,
    min_version=1,
    max_version=1,
    handle=handle,
    refuse=refuse,
    notes="an operator's abort only; see below",
)
