"""DeleteTopics v0: of clients before 0.11, whose answer has no throttle time."""

from typing import Final

from kio.schema.delete_topics.v1.request import DeleteTopicsRequest
from kio.schema.delete_topics.v1.response import DeletableTopicResult, DeleteTopicsResponse

from agent.apis import delete_topics
from agent.apis.registry import Api
from agent.apis.tables import (
    ERROR_CODE,
    MILLISECONDS,
    STRING,
    Array,
    Entity,
    reader,
    writer,
)

_REQUEST: Final = Entity(
    DeleteTopicsRequest, ("topic_names", Array(STRING)), ("timeout", MILLISECONDS)
)
_RESULT: Final = Entity(DeletableTopicResult, ("name", STRING), ("error_code", ERROR_CODE))
_RESPONSE: Final = Entity(DeleteTopicsResponse, ("responses", Array(_RESULT)))

API = Api(
    key=20,
    min_version=0,
    max_version=0,
    handle=delete_topics.handle,
    refuse=delete_topics.refuse,
    decode=reader({0: _REQUEST}),
    encode=writer({0: _RESPONSE}),
    unavailable=delete_topics.API.unavailable,
)
