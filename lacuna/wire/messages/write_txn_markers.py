"""WriteTxnMarkers. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import BOOL, INT16, INT32, INT64, STRING
from lacuna.wire.layout import Field, Message, Struct


class WritableTxnMarkerTopic(NamedTuple):
    name: str = ""
    partition_indexes: Sequence[int] = ()


class WritableTxnMarker(NamedTuple):
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: int = 0


class WriteTxnMarkersRequest(NamedTuple):
    markers: Sequence[WritableTxnMarker] = ()


class WritableTxnMarkerPartitionResult(NamedTuple):
    partition_index: int = 0
    error_code: int = 0


class WritableTxnMarkerTopicResult(NamedTuple):
    name: str = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


class WritableTxnMarkerResult(NamedTuple):
    producer_id: int = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


class WriteTxnMarkersResponse(NamedTuple):
    markers: Sequence[WritableTxnMarkerResult] = ()


_WRITABLE_TXN_MARKER_TOPIC: Final = Struct(
    WritableTxnMarkerTopic,
    name=Field(STRING),
    partition_indexes=Field(INT32, is_array=True),
)
_WRITABLE_TXN_MARKER: Final = Struct(
    WritableTxnMarker,
    producer_id=Field(INT64),
    producer_epoch=Field(INT16),
    transaction_result=Field(BOOL),
    topics=Field(_WRITABLE_TXN_MARKER_TOPIC, is_array=True),
    coordinator_epoch=Field(INT32),
)
_WRITE_TXN_MARKERS_REQUEST: Final = Struct(
    WriteTxnMarkersRequest,
    markers=Field(_WRITABLE_TXN_MARKER, is_array=True),
)
WRITE_TXN_MARKERS_REQUEST: Final[Message[WriteTxnMarkersRequest]] = Message(
    _WRITE_TXN_MARKERS_REQUEST, api_key=27, versions=(0, 1), first_flexible=1
)
_WRITABLE_TXN_MARKER_PARTITION_RESULT: Final = Struct(
    WritableTxnMarkerPartitionResult,
    partition_index=Field(INT32),
    error_code=Field(INT16),
)
_WRITABLE_TXN_MARKER_TOPIC_RESULT: Final = Struct(
    WritableTxnMarkerTopicResult,
    name=Field(STRING),
    partitions=Field(_WRITABLE_TXN_MARKER_PARTITION_RESULT, is_array=True),
)
_WRITABLE_TXN_MARKER_RESULT: Final = Struct(
    WritableTxnMarkerResult,
    producer_id=Field(INT64),
    topics=Field(_WRITABLE_TXN_MARKER_TOPIC_RESULT, is_array=True),
)
_WRITE_TXN_MARKERS_RESPONSE: Final = Struct(
    WriteTxnMarkersResponse,
    markers=Field(_WRITABLE_TXN_MARKER_RESULT, is_array=True),
)
WRITE_TXN_MARKERS_RESPONSE: Final[Message[WriteTxnMarkersResponse]] = Message(
    _WRITE_TXN_MARKERS_RESPONSE, api_key=27, versions=(0, 1), first_flexible=1
)
