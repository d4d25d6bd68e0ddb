"""A ControlClient that queries the control plane through an agent, so that a command needs only a bootstrap address.

It sends only queries. A view shows a partition as of its first use, which suffices for a command that prints a result
and exits.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from google.protobuf.message import DecodeError

from lacuna.base.errors import UserError
from lacuna.controlplane.client import ClusterView, ControlPlaneUnavailable, PartitionView
from lacuna.controlplane.client.calls import Calls
from lacuna.controlplane.client.parts import call_in_parts
from lacuna.controlplane.client.subscriptions import Subscriptions
from lacuna.controlplane.shared.contract import own_contract
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.v1.cluster_pb2 import TopicPartition
from lacuna.controlplane.v1.control_pb2 import (
    AgentAnswer,
    AgentQuestion,
    Command,
    Places,
    Reply,
    SessionRequest,
)
from lacuna.operating.kafka import Agents, KafkaConnection
from lacuna.wire.peers import ASK_CONTROL_REQUEST, ASK_CONTROL_RESPONSE, AskControlRequest

_MOST_CALLS: Final = 1_000
_MOST_PARTITIONS: Final = 100_000
#: The maximum number of partitions in one query. One answer holds all their snapshots.
_PARTITIONS_AT_ONCE: Final = 100


class RelayedClient:
    """A ControlClient over a connection to an agent. Call `open` first."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        #: A connection carries one request at a time.
        self._turn = asyncio.Lock()
        self._calls = Calls(_MOST_CALLS)
        self._wishes: list[PartitionKey] = []
        self._fetching: asyncio.Task[None] | None = None
        self._subscriptions = Subscriptions(_MOST_PARTITIONS, self._wish, lambda _: None)
        self.journal_position = 0

    async def open(self) -> None:
        """Fetch the topics and agents. Raises ControlPlaneUnavailable, UserError."""
        await self._ask(SessionRequest(contract=own_contract()))

    @property
    def cluster(self) -> ClusterView:
        """The topics and live agents, as of `open`."""
        return self._subscriptions.cluster

    @property
    def is_shut_out(self) -> bool:
        """Always false, because only agents connect to the control plane directly."""
        return False

    async def call(self, command: Command) -> Reply:
        return await call_in_parts(self._call, command)

    async def _call(self, command: Command) -> Reply:
        future = self._calls.add(command)
        try:
            await self._ask(SessionRequest(commands=[command]))
            return await future
        finally:
            self._calls.forget(command.command_id)

    def give_up_unsent(self, reason: str) -> None:
        """Do nothing, because calls are sent immediately."""

    def partition(self, topic_id: bytes, partition: int) -> PartitionView:
        return self._subscriptions.partition(topic_id, partition)

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        self._subscriptions.fail(ControlPlaneUnavailable("this client is closed"))

    def _wish(self, keys: Sequence[PartitionKey]) -> None:
        self._wishes += keys
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        """Fetch the requested partitions. An error is raised in every caller that is waiting for one of them."""
        try:
            while self._wishes:
                some = self._wishes[:_PARTITIONS_AT_ONCE]
                del self._wishes[: len(some)]
                keys = [TopicPartition(topic_id=key[0], partition=key[1]) for key in some]
                await self._ask(SessionRequest(subscribe=keys))
        except (ControlPlaneUnavailable, UserError) as error:
            self._subscriptions.fail(ControlPlaneUnavailable(str(error)))

    async def _ask(self, session: SessionRequest) -> None:
        async with self._turn:
            answer = await ask_agent(self._connection, AgentQuestion(session=session))
        told = answer.session
        self._subscriptions.apply(told.partitions, told.cluster)
        self._calls.resolve(told.replies)


@asynccontextmanager
async def relayed(agents: Agents) -> AsyncIterator[RelayedClient]:
    """Yield a client of the first agent to answer. Raises ControlPlaneUnavailable and UserErrors."""
    async with KafkaConnection(agents) as connection:
        client = RelayedClient(connection)
        try:
            await client.open()
            yield client
        finally:
            await client.close()


async def places_of(agents: Agents) -> Places:
    """Return where agents find the control plane and the store. Raises UserError, ControlPlaneUnavailable."""
    async with KafkaConnection(agents) as connection:
        return (await ask_agent(connection, AgentQuestion(wants_places=True))).places


async def ask_agent(connection: KafkaConnection, question: AgentQuestion) -> AgentAnswer:
    """Send a question to an agent. Raises BootstrapUnavailable, ControlPlaneUnavailable and other UserErrors."""
    request = AskControlRequest(question.SerializeToString())
    response = await connection.ask(ASK_CONTROL_REQUEST, ASK_CONTROL_RESPONSE, 0, request)
    code = ErrorCode(response.error_code)
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise UserError(
            "ACLs do not allow it: an administrator can allow it with `lacuna acls add --operation Describe --cluster`"
        )
    if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        raise ControlPlaneUnavailable(
            "the agent has no session with the control plane: check that the control plane is running"
        )
    if code is not ErrorCode.NONE:
        raise UserError(response.error_message or f"the agent answered {code.name}")
    try:
        return AgentAnswer.FromString(response.answer)
    except DecodeError as error:
        raise UserError(
            "the agent's response is invalid: check that the agent runs the same version of Lacuna"
        ) from error
