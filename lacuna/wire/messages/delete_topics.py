"""DeleteTopics. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lacuna.wire.kernel import INT16, INT32, STRING, UUID
from lacuna.wire.layout import ZERO_UUID, Field, Message, Struct


class DeleteTopicState(NamedTuple):
    name: str | None = None
    topic_id: bytes = ZERO_UUID


class DeleteTopicsRequest(NamedTuple):
    topics: Sequence[DeleteTopicState] = ()
    topic_names: Sequence[str] = ()
    timeout_ms: int = 0


class DeletableTopicResult(NamedTuple):
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


class DeleteTopicsResponse(NamedTuple):
    throttle_time_ms: int = 0
    responses: Sequence[DeletableTopicResult] = ()


_DELETE_TOPIC_STATE: Final = Struct(
    DeleteTopicState,
    name=Field(STRING, since=6, null_since=6),
    topic_id=Field(UUID, since=6),
)
_DELETE_TOPICS_REQUEST: Final = Struct(
    DeleteTopicsRequest,
    topics=Field(_DELETE_TOPIC_STATE, is_array=True, since=6),
    topic_names=Field(STRING, is_array=True, until=5),
    timeout_ms=Field(INT32),
)
DELETE_TOPICS_REQUEST: Final[Message[DeleteTopicsRequest]] = Message(
    _DELETE_TOPICS_REQUEST, api_key=20, versions=(0, 6), first_flexible=4
)
_DELETABLE_TOPIC_RESULT: Final = Struct(
    DeletableTopicResult,
    name=Field(STRING, null_since=6),
    topic_id=Field(UUID, since=6),
    error_code=Field(INT16),
    error_message=Field(STRING, since=5, null_since=5),
)
_DELETE_TOPICS_RESPONSE: Final = Struct(
    DeleteTopicsResponse,
    throttle_time_ms=Field(INT32, since=1),
    responses=Field(_DELETABLE_TOPIC_RESULT, is_array=True),
)
DELETE_TOPICS_RESPONSE: Final[Message[DeleteTopicsResponse]] = Message(
    _DELETE_TOPICS_RESPONSE, api_key=20, versions=(0, 6), first_flexible=4
)
