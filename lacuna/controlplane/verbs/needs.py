"""The rights that a job needs to use leases. `lacuna.controlplane.shared.rights` defines the other rules."""

from collections.abc import Iterable, Iterator
from typing import Any

from lacuna.controlplane.shared.acls import CLUSTER_NAME, Operation, ResourceType
from lacuna.controlplane.shared.rights import Need, works_with_records
from lacuna.controlplane.state.state import NO_NODE, State


def own_leases(lease_ids: Iterable[int], state: State) -> Iterator[Need]:
    """Yield a need for each agent's lease, since only the cluster itself may use one."""
    for lease_id in set(lease_ids):
        lease = state.leases.get(lease_id)
        if lease is not None and lease.node_id != NO_NODE:
            yield Need((Operation.CLUSTER_ACTION,), ResourceType.CLUSTER, CLUSTER_NAME)


def of_lease(command: Any, state: State) -> Iterator[Need]:
    """Yield the needs of a command that names one lease."""
    yield from works_with_records(command, state)
    yield from own_leases([command.lease_id], state)
