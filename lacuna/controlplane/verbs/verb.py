"""The row of a verb, which is next to the function that decides it.

`machine` finds the rows in `VERBS` of each module of this package, and the functions that replay journal records in
`REPLAYS`. Properties of a verb that clients need are options of the verb's line in control.proto.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from lacuna.controlplane.shared.rights import Rule
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.turn import Turn

# Messages are looked up by field name, which mypy cannot follow, so commands are Any here.


class Verb(NamedTuple):
    """The properties of a verb, whose name is that of the function.

    If `decide` returns None, the command is parked, and a later decision answers it. The reply of a verb that only
    `looks` is sent without a proof that this control plane still leads, so it may be out of date by as much as the
    duration of a lease if two control planes mistakenly lead at the same time. `needs` returns the rights that a job
    needs; without it, only agents and control planes may use the verb.
    """

    decide: Callable[[Turn, Any], Reply | None]
    looks: bool = False
    needs: Rule | None = None
