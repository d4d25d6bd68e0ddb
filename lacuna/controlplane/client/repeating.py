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

#: Verbs of tools and of housekeeping, whose work depends on how much there is and not on the command alone. None should
#: take long. But if one does, the leader that decides it falls silent, and so would the next one.
SUSPECTS: Final = frozenset(
    {
        "delete_groups",
        "delete_records",
        "delete_topics",
        "describe_cluster",
        "describe_consumer_groups",
        "describe_groups",
        "describe_merges",
        "describe_producers",
        "describe_transactions",
        "list_groups",
        "list_transactions",
        "offset_fetch",
        "plan_collection",
        "plan_compaction",
        "plan_merge",
        "read_as_of",
        "read_histories",
        "read_internal",
        "swap_extents",
    }
)
_FEW: Final = 100


def may_have_ended_a_leader(command: Command) -> bool:
    """Return whether a command that was in progress when its leader fell silent may be the reason for that."""
    verb = command.WhichOneof("verb")
    if verb == "offset_fetch":  # as consumers ask, which give up at an error that they do not know
        groups = command.offset_fetch.groups
        is_few = sum(len(each.partitions) for each in groups) <= _FEW
        return any(each.all_partitions for each in groups) or not is_few
    return verb in SUSPECTS


def may_be_repeated(command: Command) -> bool:
    """Return whether deciding the command a second time has the effect and the reply of deciding it once."""
    return command.WhichOneof("verb") not in NOT_REPEATED
