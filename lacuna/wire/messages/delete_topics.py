"""DeleteTopics. Written by lacuna.wire.generator, not by hand."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from lacuna.wire.layout import ZERO_UUID, In, Int16, Int32, String, Uuid, messages


class DeleteTopicState(NamedTuple):
    name: Annotated[String | None, In(since=6)] = None
    topic_id: Annotated[Uuid, In(since=6)] = ZERO_UUID


class DeleteTopicsRequest(NamedTuple):
    topics: Annotated[Sequence[DeleteTopicState], In(since=6)] = ()
    topic_names: Annotated[Sequence[String], In(until=5)] = ()
    timeout_ms: Int32 = 0


class DeletableTopicResult(NamedTuple):
    name: Annotated[String | None, In(null_since=6)] = ""
    topic_id: Annotated[Uuid, In(since=6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, In(since=5)] = None


class DeleteTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[Int32, In(since=1)] = 0
    responses: Sequence[DeletableTopicResult] = ()


DELETE_TOPICS_REQUEST, DELETE_TOPICS_RESPONSE = messages(
    DeleteTopicsRequest, DeleteTopicsResponse, api_key=20, versions=(0, 6), first_flexible=4
)
