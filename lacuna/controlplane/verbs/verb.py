"""The row of a verb, which stands beside the function that decides it.

`machine` finds the rows in `VERBS` of each module of this package, and the functions that replay journal records in
`REPLAYS`. What a client needs to know about a verb is an option of its line in control.proto.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.verbs.needs import Rule
from lacuna.controlplane.verbs.turn import Turn

# Messages are looked up by field name, which mypy cannot follow, so commands are Any here.


class Verb(NamedTuple):
    """What the control plane knows about a verb; its name is that of the function.

    If `decide` returns None, the command is parked: a later decision answers it. The reply of a verb that only `looks`
    leaves without a proof that this control plane still leads. So it may be a lease old if two lead at a time, against
    all rules. `needs` is what a job needs; without it, the verb is for agents and control planes alone.
    """

    decide: Callable[[Turn, Any], Reply | None]
    looks: bool = False
    needs: Rule | None = None
