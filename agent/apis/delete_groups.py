"""DeleteGroups v0-v2: groups without members, with their offsets (KIP-229).

NON_EMPTY_GROUP while there are members, GROUP_ID_NOT_FOUND for what does not exist.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.apis.registry import Api, Peer
from agent.apis.schema import build
from controlplane.v1.control_pb2 import Command
from controlplane.v1.groups_pb2 import DeleteGroups

if TYPE_CHECKING:
    from agent.context import AgentContext


async def handle(context: "AgentContext", request: Any, peer: Peer) -> Any:  # noqa: ARG001
    """One command for all groups."""
    command = Command(delete_groups=DeleteGroups(group_ids=request.groups_names))
    deleted = (await context.control.call(command)).groups_deleted
    return _answer(request, deleted.error_codes)


def refuse(request: Any, error_code: int) -> Any:
    """The error for every group."""
    return _answer(request, [error_code] * len(request.groups_names))


def _answer(request: Any, error_codes: Sequence[int]) -> Any:
    results = tuple(
        build(request, "DeletableGroupResult", group_id=group_id, error_code=error_code)
        for group_id, error_code in zip(request.groups_names, error_codes, strict=True)
    )
    return build(request, "DeleteGroupsResponse", results=results)


API = Api(key=42, min_version=0, max_version=2, handle=handle, refuse=refuse)
