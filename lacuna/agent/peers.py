"""Asks other agents, while no control plane can be reached, whether this agent's clients have been sent to them
(adr/0034).

If only this agent is cut off, its clients should move to the other agents. If there is no leader, they have nowhere to
go and should stay. Only the other agents know which is the case: an agent with a session stops advertising this agent
one second after the control plane has lost contact with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple, TypeAlias

from lacuna.agent.lease import NO_LEASE, AgentLease
from lacuna.controlplane.client import ControlClient
from lacuna.controlplane.v1.cluster_pb2 import Agent

log = logging.getLogger("lacuna.agent")

_PAUSE_SECONDS: Final = 1.0


class Named(NamedTuple):
    """The nodes that an agent advertises to its clients, and the agent's cluster."""

    cluster_id: str
    node_ids: Collection[int]


AskPeer: TypeAlias = Callable[[Agent], Awaitable[Named | None]]
"""Queries another agent for the nodes that it advertises. Returns None if there is no answer within a second or two."""


class Peers:
    """Queries one other agent each second while this agent has no session."""

    def __init__(self, control: ControlClient, lease: AgentLease, ask: AskPeer) -> None:
        self._control = control
        self._lease = lease
        self._ask = ask
        self._asked = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(), name="peers")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            if not self._is_cut_off or self._lease.trust.is_replaced:
                continue
            # The session is checked again after the answer, since it may be back by then.
            if await self._is_replaced() and self._is_cut_off:
                self._give_clients_up()

    @property
    def _is_cut_off(self) -> bool:
        return not self._control.cluster.is_current and self._lease.lease_id != NO_LEASE

    async def _is_replaced(self) -> bool:
        """Query the next of the other agents, and return whether it has taken over this agent's clients."""
        own_id = self._lease.node_id
        others = [each for each in self._control.cluster.agents if each.node_id != own_id]
        if not others:
            return False
        self._asked += 1
        named = await self._ask(others[self._asked % len(others)])
        return (
            named is not None
            and named.cluster_id == self._lease.cluster_id
            and own_id not in named.node_ids
        )

    def _give_clients_up(self) -> None:
        """Refer clients to the other agents as leaders and coordinators from now on.

        Drop the clients' unsent commands, which must not reach the control plane after requests that the clients send
        through other agents.
        """
        log.warning(
            "this agent cannot reach any control plane, but other agents can: clients are sent "
            "to them until this agent has a session again"
        )
        self._lease.trust.is_replaced = True
        self._control.give_up_unsent(
            "the agent is cut off from the control plane, and its clients are sent to other agents"
        )
