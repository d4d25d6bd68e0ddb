"""Which commands may be decided twice: those that a client sends again when it does not know what became of them."""

from collections.abc import Mapping
from typing import Any, Final

from lacuna.controlplane.v1.control_pb2 import Command, again, is_large

# The stubs that protoc writes do not type extensions.
_OPTIONS: Final[Mapping[str, Any]] = {
    field.name: field.GetOptions().Extensions
    for field in Command.DESCRIPTOR.oneofs_by_name["verb"].fields
}
#: What a second decision would do that the first did not, so that the caller must decide what to do.
NOT_REPEATED: Final[Mapping[str, str]] = {
    verb: options[again] for verb, options in _OPTIONS.items() if options[again]
}
#: Verbs whose work depends on how much there is.
_LARGE: Final = frozenset(verb for verb, options in _OPTIONS.items() if options[is_large])
_FEW: Final = 100


def may_have_ended_a_leader(command: Command) -> bool:
    """Return whether a command that was in progress when its leader fell silent may be the reason for that."""
    verb = command.WhichOneof("verb")
    if verb == "offset_fetch":  # as consumers ask, which give up at an error that they do not know
        groups = command.offset_fetch.groups
        is_few = sum(len(each.partitions) for each in groups) <= _FEW
        return any(each.all_partitions for each in groups) or not is_few
    return verb in _LARGE


def may_be_repeated(command: Command) -> bool:
    """Return whether deciding the command a second time has the effect and the reply of deciding it once."""
    return command.WhichOneof("verb") not in NOT_REPEATED
