"""A Kafka client of the simulation: typed messages over simulated connections, with the retries of real clients.

A client process has one connection to each known agent. If a request is not answered in time, its connection is closed,
as in real clients, so an answer never belongs to an earlier request.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.topic_configs import SET
from tests.messages import REQUESTS, RESPONSES, make, nested
from tests.simulation.network import End, Network
from tests.simulation.trace import Trace

#: Kinds of resources that have configs.
BROKER_CONFIGS, GROUP_CONFIGS = 4, 32
#: Errors that a client answers by looking up the leader or coordinator, and trying again.
RETRIABLE: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    }
)


class Unanswered(Exception):
    """It is unknown whether the request was processed: its connection broke, or no answer came in time."""


class KafkaError(Exception):
    """A request was answered with an error."""

    def __init__(self, code: int, what: str = "") -> None:
        self.code = ErrorCode(code)
        super().__init__(f"{what} {self.code.name}".strip())


class Gone(KafkaError):
    """The topic with this id no longer exists."""


#: Within this time an agent sends the answer to a fetch that it has planned.
LONGEST_ANSWER_SECONDS: Final = 5.0


class Connection:
    """A connection to one agent. Answers arrive in the order of the requests."""

    def __init__(self, end: End, trace: Trace | None = None) -> None:
        self._end = end
        self._trace = trace
        self._loop = asyncio.get_running_loop()
        self._correlation = itertools.count(1)
        self._waiting: dict[int, tuple[int, int, asyncio.Future[Any], bool]] = {}
        self._received = b""
        end.open(self._receive, self._broken)

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return self._end.is_open

    def send(
        self, key: int, version: int, request: Any, *, is_timed: bool = False
    ) -> asyncio.Future[Any]:
        """Send a request. The future of its answer fails with Unanswered.

        If it is timed, the future returns the answer and the time at which the agent sent it, or -inf if the agent knew
        of no control plane.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        if not self._end.is_open:
            future.set_exception(Unanswered("the connection is closed"))
            return future
        message = REQUESTS[key]
        number = next(self._correlation)
        header = struct.pack(">hhihs", key, version, number, 1, b"s")
        tags = b"\0" if message.is_flexible(version) else b""
        body = header + tags + message.write(request, version)
        self._waiting[number] = (key, version, future, is_timed)
        if self._trace is not None:
            self._trace.request(key, version, self._end.peer.process.name, request)
        self._end.send(struct.pack(">i", len(body)) + body)
        return future

    def close(self) -> None:
        """Close immediately. Requests that are waiting for an answer fail."""
        self._end.reset()
        self._broken(None)

    def _receive(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        position = 0
        while len(received) - position >= 4:
            (size,) = struct.unpack_from(">i", received, position)
            if len(received) - position < 4 + size:
                break
            self._answered(received[position + 4 : position + 4 + size])
            position += 4 + size
        self._received = received[position:]

    def _answered(self, frame: bytes) -> None:
        (number,) = struct.unpack_from(">i", frame)
        key, version, future, is_timed = self._waiting.pop(number)
        message = RESPONSES[key]
        start = 4 + (message.is_flexible(version) and key != 18)
        answer = message.read(memoryview(frame)[start:], version)
        if self._trace is not None:
            self._trace.answer(key, self._end.peer.process.name, answer)
        if not future.done():
            future.set_result((answer, self._knowing_at()) if is_timed else answer)

    def _knowing_at(self) -> float:
        """Return when the answer was sent, or -inf if the agent knew of no control plane, so that its data may be
        outdated.
        """
        sent_at = self._end.sent_at
        has_read_on = self._end.peer.process.read_on_at >= sent_at - LONGEST_ANSWER_SECONDS
        return -math.inf if has_read_on else sent_at

    def _broken(self, error: Exception | None) -> None:
        waiting, self._waiting = self._waiting, {}
        for _, _, future, _ in waiting.values():
            if not future.done():
                future.set_exception(Unanswered(str(error or "the agent closed the connection")))


class Client:
    """A Kafka client: metadata, connections, and retries. Belongs to one simulated process."""

    def __init__(
        self,
        network: Network,
        bootstrap: list[tuple[str, int]],
        randomness: random.Random,
        *,
        request_timeout: float = 5.0,
        served: Callable[[], None] = lambda: None,
        failed_over: Callable[[], None] = lambda: None,
    ) -> None:
        self.network = network
        self.random = randomness
        self.request_timeout = request_timeout
        #: To be called whenever the client got something done.
        self.served = served
        #: Called whenever a partition has another leader than before, or a group or transactional id a coordinator.
        self._failed_over = failed_over
        self._served_by: dict[tuple[str | int, str | int], tuple[str, int]] = {}
        self._bootstrap = bootstrap
        self._connections: dict[tuple[str, int], Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        #: topic → (id, leader's node id by partition)
        self.topics: dict[str, tuple[bytes, Mapping[int, int]]] = {}
        #: topic → the id it had last; the id of "name/id" is that one.
        self.topic_ids: dict[str, bytes] = {}
        self.coordinators: dict[tuple[int, str], tuple[str, int]] = {}

    async def connection(self, address: tuple[str, int]) -> Connection:
        """Return the open connection to an agent. Raises Unanswered if there is none and none can be opened."""
        found = self._connections.get(address)
        if found is not None and found.is_open:
            return found
        try:
            end = await self.network.connect(*address)
        except (OSError, TimeoutError) as error:
            raise Unanswered(str(error)) from error
        opened = self._connections[address] = Connection(end, self.network.trace)
        return opened

    def connected(self, address: tuple[str, int]) -> object:
        """Return the connection to an agent, so that it can be told apart from others."""
        return self._connections.get(address)

    async def ask(
        self,
        address: tuple[str, int],
        key: int,
        version: int,
        request: Any,
        *,
        timeout: float | None = None,
        is_timed: bool = False,
    ) -> Any:
        """Send a request to one agent and return its answer, as `Connection.send` does. Raises Unanswered."""
        connection = await self.connection(address)
        future = connection.send(key, version, request, is_timed=is_timed)
        try:
            async with asyncio.timeout(timeout or self.request_timeout):
                return await future
        except TimeoutError:
            connection.close()
            raise Unanswered("no answer in time") from None

    async def ask_any(self, key: int, version: int, request: Any) -> Any:
        """Send a request to any agent. Raises Unanswered."""
        return await self.ask(self.random.choice(self.agents), key, version, request)

    async def configure(self, kind: int, name: str, configs: Mapping[str, str]) -> None:
        """Set the configs of a resource, as soon as an agent accepts them."""
        changes = [
            nested(44, 1, "AlterableConfig", name=key, config_operation=SET, value=value)
            for key, value in configs.items()
        ]
        resource = nested(
            44, 1, "AlterConfigsResource", resource_type=kind, resource_name=name, configs=changes
        )
        request = make(REQUESTS[44].body, 1, resources=[resource])
        while True:
            try:
                answer = await self.ask_any(44, 1, request)
                if not answer.responses[0].error_code:
                    return
            except Unanswered:
                pass
            await self.pause()

    @property
    def agents(self) -> list[tuple[str, int]]:
        """Return the known addresses."""
        return sorted({*self._brokers.values(), *self._bootstrap})

    def disconnect(self) -> None:
        """Close all connections, as a client does when it is closed."""
        for connection in self._connections.values():
            if connection.is_open:
                connection.close()
        self._connections.clear()

    # Metadata.

    async def refresh(self, *names: str) -> None:
        """Request the metadata of the cluster and these topics. Raises Unanswered."""
        asked = tuple(nested(3, 12, "MetadataRequestTopic", name=name) for name in names)
        request = make(REQUESTS[3].body, 12, topics=asked, allow_auto_topic_creation=False)
        answer = await self.ask_any(3, 12, request)
        if answer.brokers:
            self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            if topic.error_code:
                self.topics.pop(topic.name, None)
            else:
                leaders = {each.partition_index: each.leader_id for each in topic.partitions}
                self.topics[topic.name] = (topic.topic_id, leaders)
                self.topic_ids[topic.name] = topic.topic_id
                for partition, leader in leaders.items():
                    if leader in self._brokers:
                        self._note((topic.name, partition), self._brokers[leader])

    def _note(self, what: tuple[str | int, str | int], address: tuple[str, int]) -> None:
        """Record the agent that serves a partition, a group or a transactional id."""
        before = self._served_by.get(what, address)
        self._served_by[what] = address
        if before != address:
            self._failed_over()

    async def leader(self, topic: str, partition: int) -> tuple[str, int]:
        """Return the address of a partition's leader. Raises Unanswered if it is not known.

        "name/id" means the topic with this name only while it has this id. Otherwise, raises Gone.
        """
        name, _, wanted = topic.partition("/")
        known = self.topics.get(name)
        if known is None or self._brokers.get(known[1].get(partition, -1)) is None:
            await self.refresh(name)
            known = self.topics.get(name)
        if wanted and (known is None or known[0].hex() != wanted):
            raise Gone(ErrorCode.UNKNOWN_TOPIC_ID, topic)
        if known is None:
            raise Unanswered(f"no topic {topic}")
        found = self._brokers.get(known[1].get(partition, -1))
        if found is None:
            self.topics.pop(name, None)
            raise Unanswered(f"{topic}-{partition} has no leader")
        return found

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic whose leader was looked up."""
        name, _, wanted = topic.partition("/")
        return bytes.fromhex(wanted) if wanted else self.topic_ids[name]

    def forget_leader(self, topic: str) -> None:
        """Make the next `leader` look it up again."""
        self.topics.pop(topic.partition("/")[0], None)

    async def coordinator(self, kind: int, name: str) -> tuple[str, int]:
        """Return the address of the coordinator of a group (0) or transactional id (1). Raises Unanswered."""
        found = self.coordinators.get((kind, name))
        if found is not None:
            return found
        request = make(REQUESTS[10].body, 4, key_type=kind, coordinator_keys=(name,))
        answer = await self.ask_any(10, 4, request)
        each = answer.coordinators[0]
        if each.error_code:
            raise Unanswered(ErrorCode(each.error_code).name)
        found = self.coordinators[kind, name] = (each.host, each.port)
        self._note((kind, name), found)
        return found

    def forget_coordinator(self, kind: int, name: str) -> None:
        """Make the next `coordinator` look it up again."""
        self.coordinators.pop((kind, name), None)

    async def pause(self) -> None:
        """Wait before the next attempt, as clients do."""
        await asyncio.sleep(0.05 + 0.1 * self.random.random())

    async def coordinated(
        self,
        kind: int,
        name: str,
        key: int,
        version: int,
        request: Any,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Send a request to a coordinator once. Raises Unanswered, after which the coordinator is looked up again."""
        try:
            address = await self.coordinator(kind, name)
            return await self.ask(address, key, version, request, timeout=timeout)
        except Unanswered:
            self.forget_coordinator(kind, name)
            raise
