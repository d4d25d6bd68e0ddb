"""The table row of a verb, kept next to the function that decides it.

`machine` collects the rows from `VERBS` in each module of this package, and the functions that replay journal records
from `REPLAYS`. Properties that clients need are options of the verb's line in control.proto.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from lacuna.controlplane.shared.rights import Rule
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.turn import Turn

# Messages are looked up by field name, which mypy cannot follow, so commands are Any here.


class Verb(NamedTuple):
    """The properties of a verb, which is named after its function.

    If `decide` returns None, the command is parked, and a later decision answers it. The reply of a verb that only
    `looks` is sent without proof that this control plane is still the leader, so if two control planes mistakenly act
    as leaders at the same time, the reply may be out of date by up to the duration of a lease. `needs` returns the
    rights that a job needs; without it, only agents and control planes may use the verb.
    """

    decide: Callable[[Turn, Any], Reply | None]
    looks: bool = False
    needs: Rule | None = None
