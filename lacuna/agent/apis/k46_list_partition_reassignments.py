"""ListPartitionReassignments v0 (KIP-455): always returns an empty list."""

from lacuna.agent.api import Api, Call, error_in
from lacuna.agent.guards.guard import on_cluster
from lacuna.controlplane.shared.acls import Operation
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS_REQUEST,
    LIST_PARTITION_REASSIGNMENTS_RESPONSE,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


async def handle(
    _call: Call, _request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer with no topics, regardless of the request."""
    return ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None)


API = Api(
    request=LIST_PARTITION_REASSIGNMENTS_REQUEST,
    response=LIST_PARTITION_REASSIGNMENTS_RESPONSE,
    max_version=0,
    handle=handle,
    refuse=error_in(LIST_PARTITION_REASSIGNMENTS_RESPONSE),
    guard=on_cluster(Operation.DESCRIBE),
    notes="always empty",
)
