"""Members of groups that are kept while no control plane can be reached (adr/0034).

Nobody can join, leave or be removed then, and sessions begin anew afterwards, so a member that was in its generation
still is. But clients do not know this: after some time without an answer to their heartbeats, librdkafka and franz-go
give up their partitions. So the agent itself answers the members that it has heard to be in their groups.

A control plane may have decided the heartbeat all the same, and its answer, perhaps with what the member is to give up,
is lost. So it tells each member its assignment again over the next session (adr/0016).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from lacuna.agent.trust import Trust
from lacuna.controlplane.client import ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.groups_pb2 import HeartbeatAnswered

#: The reply to a member of a classic group that is in its generation.
IN_GENERATION: Final = Reply(heartbeat_answered=HeartbeatAnswered())
#: How long a heartbeat waits for a control plane, since most come back at once.
_PATIENCE_SECONDS: Final = 3.0
#: For how long members are kept: as long as the control plane's time stands still in an outage (adr/0025).
_LONGEST_SECONDS: Final = 120.0
_MOST: Final = 100_000


class Members:
    """The members that were in their groups when they were last heard of here, the latest ones."""

    def __init__(self, control: ControlClient, trust: Trust) -> None:
        self._control = control
        self._trust = trust
        self._kept: OrderedDict[Hashable, Reply] = OrderedDict()

    async def ask(self, member: Hashable, command: Command) -> Reply:
        """Pass a heartbeat on and return the reply, or what was kept for the member. Raises ControlPlaneUnavailable.

        `member` says who is in which group and generation; with None, nothing was kept.
        """
        calling = asyncio.ensure_future(self._control.call(command))
        try:
            await asyncio.wait([calling], timeout=_PATIENCE_SECONDS)
            if not calling.done() and (reply := self._reply_to(member)) is not None:
                return reply
            return await calling
        except ControlPlaneUnavailable:
            if (reply := self._reply_to(member)) is not None:
                return reply
            raise
        finally:
            calling.cancel()

    def keep(self, member: Hashable, reply: Reply) -> None:
        """Note that the member is to have this reply while nobody can be asked: it is in its group."""
        self._kept[member] = reply
        self._kept.move_to_end(member)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)

    def forget(self, member: Hashable) -> None:
        """Note that the member is not in its group as it thinks that it is."""
        self._kept.pop(member, None)

    def _reply_to(self, member: Hashable) -> Reply | None:
        return self._kept.get(member) if self._trust.is_alone(_LONGEST_SECONDS) else None
