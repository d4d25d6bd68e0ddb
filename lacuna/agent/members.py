"""Group members that the agent keeps alive while no control plane can be reached (adr/0034).

During such an outage, no member can join, leave or be removed, and member sessions restart afterwards. A member of the
current generation therefore stays in it. But clients do not know this: after some time without an answer to their
heartbeats, librdkafka and franz-go give up their partitions. The agent therefore answers heartbeats from members that
it knows to be in their groups.

A control plane may have decided a heartbeat whose answer, perhaps with partitions to revoke, was lost. It therefore
sends each member its assignment again over the next session (adr/0016).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from lacuna.agent.trust import Trust
from lacuna.controlplane.client import ControlClient, ControlPlaneUnavailable
from lacuna.controlplane.v1.cluster_pb2 import Outcome
from lacuna.controlplane.v1.consumer_groups_pb2 import ConsumerGroupHeartbeatAnswered
from lacuna.controlplane.v1.control_pb2 import Command, Reply

#: The reply to a member of a classic group that belongs to the current generation.
IN_GENERATION: Final = Reply(heartbeat_answered=Outcome())
#: How long a heartbeat waits for a control plane, since most outages are short.
_PATIENCE_SECONDS: Final = 3.0
#: How long members are kept, which is as long as the control plane's time stands still in an outage (adr/0025).
_LONGEST_SECONDS: Final = 120.0
_MOST: Final = 100_000


def without_assignment(answered: ConsumerGroupHeartbeatAnswered) -> ConsumerGroupHeartbeatAnswered:
    """Return the answer to keep for a member, without the assignment, which the member already knows."""
    return ConsumerGroupHeartbeatAnswered(
        member_id=answered.member_id,
        member_epoch=answered.member_epoch,
        heartbeat_interval_ms=answered.heartbeat_interval_ms,
    )


class Members:
    """The members that this agent has most recently seen in their groups."""

    def __init__(self, control: ControlClient, trust: Trust) -> None:
        self._control = control
        self._trust = trust
        self._kept: OrderedDict[Hashable, Reply] = OrderedDict()

    async def ask(self, member: Hashable, command: Command) -> Reply:
        """Forward a heartbeat, and return its reply or, without a control plane, the reply kept for the member.

        `member` identifies the group, the generation and the member; None means that no reply is kept. Raises
        ControlPlaneUnavailable if there is neither a control plane nor a kept reply.
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
        """Keep this reply for a member of the group, for use while there is no control plane."""
        self._kept[member] = reply
        self._kept.move_to_end(member)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)

    def forget(self, member: Hashable) -> None:
        """Forget a member that has turned out not to be in its group."""
        self._kept.pop(member, None)

    def _reply_to(self, member: Hashable) -> Reply | None:
        return self._kept.get(member) if self._trust.is_alone(_LONGEST_SECONDS) else None
