"""The authorized operations in answers (KIP-430), as bit sets. Without an authorizer, all operations are allowed."""

from lacuna.controlplane.shared.acls import ResourceType
from lacuna.controlplane.shared.authorizer import OPERATIONS

NOT_ASKED = -(2**31)

TOPIC, CLUSTER, GROUP = (
    sum(1 << operation for operation in OPERATIONS[each])
    for each in (ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.GROUP)
)
