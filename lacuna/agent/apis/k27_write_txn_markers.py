"""WriteTxnMarkers v0-v2.

In Kafka, a coordinator sends this request to inform brokers of an outcome, and operators' tools use it to end hanging
transactions. In Lacuna, only the control plane decides outcomes (S21). An abort marker aborts the *whole* transaction
of its producer id and epoch, whichever partitions it names, and bumps the epoch. A commit marker returns
TRANSACTION_COORDINATOR_FENCED. v2 adds the transaction version (KIP-1228), which is ignored. A partition that does not
exist returns UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.
"""

from collections.abc import Mapping

from lacuna.agent.api import Api, Call, Pieces
from lacuna.agent.guards.guard import on_cluster
from lacuna.agent.partitions import find_topic
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.transactions_pb2 import AbortTxn
from lacuna.wire.messages import transactions as wire


async def handle(call: Call, request: wire.WriteTxnMarkersRequest) -> wire.WriteTxnMarkersResponse:
    results = []
    for marker in request.markers:
        exists = {
            (name, partition): find_topic(call.context, name, partition) is not None
            for name, partition in _pairs(marker)
        }
        code = await _end(call, marker) if any(exists.values()) else 0
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = {pair: code if found else unknown for pair, found in exists.items()}
        results.append(_result(marker, codes))
    return wire.WriteTxnMarkersResponse(markers=results)


def _pairs(marker: wire.WritableTxnMarker) -> list[tuple[str, int]]:
    return [
        (topic.name, partition) for topic in marker.topics for partition in topic.partition_indexes
    ]


async def _end(call: Call, marker: wire.WritableTxnMarker) -> int:
    if marker.transaction_result:
        return ErrorCode.TRANSACTION_COORDINATOR_FENCED
    command = AbortTxn(producer_id=marker.producer_id, producer_epoch=marker.producer_epoch)
    return (await call.context.control.call(Command(abort_txn=command))).txn_aborted.error_code


def _result(
    marker: wire.WritableTxnMarker, codes: Mapping[tuple[str, int], int]
) -> wire.WritableTxnMarkerResult:
    topics = [
        wire.WritableTxnMarkerTopicResult(
            topic.name,
            [
                wire.WritableTxnMarkerPartitionResult(partition, codes[topic.name, partition])
                for partition in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return wire.WritableTxnMarkerResult(marker.producer_id, topics)


API = Api(
    request=wire.WRITE_TXN_MARKERS_REQUEST,
    response=wire.WRITE_TXN_MARKERS_RESPONSE,
    advertised=(1, 2),
    handle=handle,
    refusal=lambda _call, request, code: wire.WriteTxnMarkersResponse(
        markers=[_result(each, dict.fromkeys(_pairs(each), code)) for each in request.markers]
    ),
    guard=on_cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
    pieces=(Pieces(("markers",), ("markers",)),),
    notes="only aborts transactions, for operators; see [differences](#deliberate-differences)",
)
