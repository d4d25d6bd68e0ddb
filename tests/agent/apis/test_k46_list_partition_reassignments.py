"""ListPartitionReassignments: there are never any reassignments."""

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.wire.messages.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS_REQUEST,
    LIST_PARTITION_REASSIGNMENTS_RESPONSE,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.agent.apis.clusters import Setup


async def test_nothing_is_reassigned(setup: Setup) -> None:
    """For all topics, and for one."""
    await setup.create("t")
    for topics in (None, [ListPartitionReassignmentsTopics("t", [0])]):
        answer = await setup.client.call(
            LIST_PARTITION_REASSIGNMENTS_REQUEST,
            LIST_PARTITION_REASSIGNMENTS_RESPONSE,
            0,
            ListPartitionReassignmentsRequest(1000, topics),
        )
        assert (answer.error_code, answer.topics) == (ErrorCode.NONE, ())
