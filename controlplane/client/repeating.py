"""Which commands may be decided twice: those that a client sends again when it does not know what became of them."""

from typing import Final

from lacuna.controlplane.v1.control_pb2 import Command

#: What a second decision would do that the first did not, so that whoever called must decide himself what to do.
NOT_REPEATED: Final = {
    "register_agent": "gives another lease",
    "open_lease": "gives another lease",
    "release_lease": "says that the lease has ended",
    "create_topics": "says that the topics exist",
    "delete_topics": "says that the topics do not exist",
    "create_partitions": "says that there are as many partitions already",
    "pin_reads": "holds another pin",
    "unpin_reads": "says that the pin has ended",
    "abort_txn": "aborts the next transaction",
    "join_group": "adds another member",
    "leave_group": "says that the member is not known",
    "delete_groups": "says that the groups do not exist",
    "delete_offsets": "says that there are no such offsets",
}


def may_be_repeated(command: Command) -> bool:
    """Return whether deciding the command a second time has the effect and the reply of deciding it once."""
    return command.WhichOneof("verb") not in NOT_REPEATED
