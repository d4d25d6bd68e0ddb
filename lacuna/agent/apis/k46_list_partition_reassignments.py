"""ListPartitionReassignments v0 (KIP-455): always returns an empty list."""

from lacuna.agent.api import Api, Call
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
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer with no topics, regardless of the request."""
    return refuse(call, request, ErrorCode.NONE)


def refuse(
    _call: Call, _request: ListPartitionReassignmentsRequest, error_code: int
) -> ListPartitionReassignmentsResponse:
    """Answer with the error and no topics."""
    return ListPartitionReassignmentsResponse(error_code=error_code, error_message=None)


API = Api(
    request=LIST_PARTITION_REASSIGNMENTS_REQUEST,
    response=LIST_PARTITION_REASSIGNMENTS_RESPONSE,
    max_version=0,
    handle=handle,
    refuse=refuse,
    guard=on_cluster(Operation.DESCRIBE),
    notes="always empty",
)
