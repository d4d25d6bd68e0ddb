"""AlterUserScramCredentials v0 (KIP-554): a credential that nobody checks is not kept.

To delete one is RESOURCE_NOT_FOUND, to set one UNSUPPORTED_SASL_MECHANISM, with a sentence.
"""

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode as KafkaError

from agent.apis.registry import Api, Peer
from agent.apis.schema import build

if TYPE_CHECKING:
    from agent.context import AgentContext

_NOT_FOUND = "Attempt to delete a user credential that does not exist"
_NOT_CHECKED = "Connections are not authenticated here, so credentials cannot be set."


async def handle(
    context: "AgentContext",  # noqa: ARG001 - every handler has it
    request: Any,
    peer: Peer,  # noqa: ARG001
) -> Any:
    """One result a user."""
    results = {each.name: (KafkaError.resource_not_found, _NOT_FOUND) for each in request.deletions}
    for each in request.upsertions:
        results[each.name] = KafkaError.unsupported_sasl_mechanism, _NOT_CHECKED
    return build(
        request,
        "AlterUserScramCredentialsResponse",
        results=tuple(
            build(
                request,
                "AlterUserScramCredentialsResult",
                user=name,
                error_code=code,
                error_message=message,
            )
            for name, (code, message) in results.items()
        ),
    )


API = Api(
    key=51,
    min_version=0,
    max_version=0,
    handle=handle,
    notes="connections are not authenticated: UNSUPPORTED_SASL_MECHANISM",
)
