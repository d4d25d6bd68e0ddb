"""DescribeUserScramCredentials v0 (KIP-554): there are none.

A user that is asked for is RESOURCE_NOT_FOUND, one that is asked for twice DUPLICATE_RESOURCE.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """Null users, and none, are all: nobody."""
    times = Counter(user.name for user in request.users or ())
    return build(
        request,
        "DescribeUserScramCredentialsResponse",
        error_code=KafkaError.none,
        error_message="",
        results=tuple(_result(request, name, count) for name, count in times.items()),
    )


def _result(request: Any, name: str, count: int) -> Any:
    code = KafkaError.resource_not_found
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if count > 1:
        code = KafkaError.duplicate_resource
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    return build(
        request,
        "DescribeUserScramCredentialsResult",
        user=name,
        error_code=code,
        error_message=message,
        credential_infos=(),
    )


API = Api(key=50, min_version=0, max_version=0, handle=handle, notes="there are no credentials")
