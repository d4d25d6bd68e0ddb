"""WriteTxnMarkers. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import Bool, In, Int8, Int16, Int32, Int64, String, messages


class WritableTxnMarkerTopic(NamedTuple):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class WritableTxnMarker(NamedTuple):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, In(since=2)] = 0


class WriteTxnMarkersRequest(NamedTuple):
    markers: Sequence[WritableTxnMarker] = ()


class WritableTxnMarkerPartitionResult(NamedTuple):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(NamedTuple):
    name: String = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


class WritableTxnMarkerResult(NamedTuple):
    producer_id: Int64 = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


class WriteTxnMarkersResponse(NamedTuple):
    markers: Sequence[WritableTxnMarkerResult] = ()


WRITE_TXN_MARKERS_REQUEST, WRITE_TXN_MARKERS_RESPONSE = messages(
    WriteTxnMarkersRequest, WriteTxnMarkersResponse, api_key=27, versions=(0, 2), first_flexible=1
)
