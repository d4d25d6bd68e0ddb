"""Which replies need not wait for the disk: the one exception from S2."""

from collections.abc import Callable
from typing import Final

from controlplane.v1.control_pb2 import Command, Reply


def _added_all(command: Command, reply: Reply) -> bool:
    """A durable Produce implies it, and a transaction that lost it can only abort."""
    added = reply.partitions_added_to_txn
    is_read = command.add_partitions_to_txn.verify_only
    return not (is_read or added.error_code or any(added.error_codes))


#: Verbs whose reply need not wait for the disk, and which of their replies those are.
EARLY_REPLIES: Final[dict[str, Callable[[Command, Reply], bool]]] = {
    "add_partitions_to_txn": _added_all,
}
