"""Determines which commands a client may send again if their outcome is unknown."""

from collections.abc import Mapping
from typing import Any, Final

from lacuna.controlplane.v1.control_pb2 import Command, again, is_large

# Extensions lack types in the stubs that protoc generates.
_OPTIONS: Final[Mapping[str, Any]] = {
    field.name: field.GetOptions().Extensions
    for field in Command.DESCRIPTOR.oneofs_by_name["verb"].fields
}
#: Verbs that only the caller may decide to repeat, each with the effect of a second decision.
NOT_REPEATED: Final[Mapping[str, str]] = {
    verb: options[again] for verb, options in _OPTIONS.items() if options[again]
}
#: Verbs whose work depends on the amount of state.
_LARGE: Final = frozenset(verb for verb, options in _OPTIONS.items() if options[is_large])
_FEW: Final = 100


def may_have_ended_a_leader(command: Command) -> bool:
    """Return whether a command may have silenced the leader that was deciding it."""
    verb = command.WhichOneof("verb")
    if verb == "offset_fetch":  # consumers send it, and an unknown error would make them give up
        groups = command.offset_fetch.groups
        is_few = sum(len(each.partitions) for each in groups) <= _FEW
        return any(each.all_partitions for each in groups) or not is_few
    return verb in _LARGE


def may_be_repeated(command: Command) -> bool:
    """Return whether deciding the command twice has the same effect and reply as deciding it once."""
    return command.WhichOneof("verb") not in NOT_REPEATED
