"""A client's view of a Kafka cluster (version 2.8 or later): its brokers, topics and leaders.

Used for the source of an import and for the agents of its target. All requests to a broker share one connection;
followers open separate ones, because a fetch blocks its connection until records arrive.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, TypeVar

from lacuna.base.addresses import join_address
from lacuna.base.errors import UserError
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.ids import show_id
from lacuna.operating.kafka import (
    Agents,
    BootstrapUnavailable,
    KafkaConnection,
    NotAuthenticated,
    Unreachable,
)
from lacuna.wire.layout import ZERO_UUID, Message
from lacuna.wire.messages import fetch as wire
from lacuna.wire.messages.cluster import (
    API_VERSIONS_REQUEST,
    API_VERSIONS_RESPONSE,
    ApiVersionsRequest,
)
from lacuna.wire.messages.groups import (
    FIND_COORDINATOR_REQUEST,
    FIND_COORDINATOR_RESPONSE,
    FindCoordinatorRequest,
)
from lacuna.wire.messages.topics import (
    METADATA_REQUEST,
    METADATA_RESPONSE,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)

Q = TypeVar("Q")
T = TypeVar("T")
R = TypeVar("R")

NO_LEADER: Final = -1
LATEST: Final = -1
EARLIEST: Final = -2
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

#: The timeout of a request in seconds. A fetch waits for much less.
_TIMEOUT_SECONDS: Final = 30.0
#: How many times a request about partitions is repeated while their leaders move, and the pause before each repetition.
_ATTEMPTS: Final = 10
_PAUSE_SECONDS: Final = 0.5
#: The version of Metadata that contains all fields used here. Topic ids were added in version 10.
_METADATA_VERSION: Final = 12
_LIST_OFFSETS_VERSION: Final = 7
#: The last version that takes one group per request.
_FIND_COORDINATOR_VERSION: Final = 3

#: A topic's name and a partition's index.
Place = tuple[str, int]

#: The errors of a partition whose leader is moving, or has only just become the leader.
MOVING: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)

#: The errors of a coordinator that is moving, or loading its state after a restart.
_COORDINATOR_MOVES: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class ClusterFailed(UserError):
    """A cluster did not answer. It may be restarting, so a retry may succeed."""


class ClusterRefused(UserError):
    """A cluster rejected the credentials or a request. A retry cannot succeed."""


def failure_of(what: str, code: int) -> ClusterFailed | ClusterRefused:
    """Return the error for a coordinator's error code: ClusterFailed if the coordinator is moving or loading its state,
    otherwise ClusterRefused.
    """
    kind = ClusterFailed if code in _COORDINATOR_MOVES else ClusterRefused
    return kind(f"{what}: {name_of(code)}")


def in_parts(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def show(place: Place) -> str:
    return f"{place[0]}[{place[1]}]"


def name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


@dataclass(frozen=True, slots=True)
class TopicThere:
    """A topic in a cluster, with each partition's leader in `leaders`. `topic_id` is empty if the cluster has no topic
    ids.
    """

    name: str
    topic_id: str
    raw_id: bytes
    leaders: Sequence[int]

    @classmethod
    def of(cls, topic: MetadataResponseTopic) -> Self:
        leaders = {each.partition_index: each.leader_id for each in topic.partitions}
        topic_id = "" if topic.topic_id == ZERO_UUID else show_id(topic.topic_id)
        nodes = [leaders.get(index, NO_LEADER) for index in range(len(topic.partitions))]
        return cls(topic.name or "", topic_id, topic.topic_id, nodes)


def link_of(source: "Kafka", topic: TopicThere) -> str:
    """Return the value of mirror.source for a copy of this topic."""
    return f"{source.cluster_id}/{topic.topic_id or topic.name}"


class Broker:
    """A connection to one broker. It sends one request at a time, in a version that the broker supports."""

    def __init__(self, agents: Agents, what: str) -> None:
        self._connection = KafkaConnection(agents, _TIMEOUT_SECONDS)
        self._what = what
        self._address = agents.addresses
        self._turn = asyncio.Lock()
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._is_open = False
        #: Whether a request was cancelled or failed, so that its response may still arrive.
        self._is_owed = False

    async def open(self) -> None:
        """Connect, and request the versions that the broker supports. Raises ClusterFailed, ClusterRefused."""
        try:
            await self._connection.__aenter__()
            self._is_open = True
            self._is_owed = False
            answer = await self._connection.ask(
                API_VERSIONS_REQUEST, API_VERSIONS_RESPONSE, 0, ApiVersionsRequest()
            )
        except Unreachable as error:
            raise ClusterFailed(
                f"{self._what} does not answer at {error.failures}: check the address, and make sure that it is running"
            ) from error
        except (BootstrapUnavailable, NotAuthenticated) as error:
            raise self._failure(error) from error
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._connection.__aexit__(None, None, None)

    def version_of(self, form: Message[Q], wanted: int) -> int:
        """Return the newest version up to `wanted` that the broker supports. Raises ClusterRefused if there is none."""
        oldest, newest = self._versions.get(form.api_key, (0, -1))
        version = min(wanted, newest)
        if version < oldest:
            raise ClusterRefused(
                f"{self._what} at {self._address} supports no version of Kafka request {form.api_key} that "
                "`lacuna import` can use: the source must run Apache Kafka 2.8 or later"
            )
        return version

    def knows(self, form: Message[Q]) -> bool:
        return form.api_key in self._versions

    async def ask(self, form: Message[Q], answer: Message[R], wanted: int, request: Q) -> R:
        """Send a request in the newest supported version up to `wanted`. Raises ClusterFailed, ClusterRefused."""
        version = self.version_of(form, wanted)
        async with self._turn:
            if self._is_owed:
                await self.close()
                await self.open()
            self._is_owed = True
            try:
                found = await self._connection.ask(form, answer, version, request)
            except (BootstrapUnavailable, NotAuthenticated) as error:
                raise self._failure(error) from error
            self._is_owed = False
            return found

    def _failure(self, error: UserError) -> UserError:
        if isinstance(error, NotAuthenticated):  # its message already contains the address
            return ClusterRefused(f"{self._what}: {error}")
        return ClusterFailed(f"{self._what} at {self._address}: {error}")


class Kafka:
    """A Kafka cluster, as an asynchronous context manager. Messages refer to it as `what`, for example "the source".

    Entering the context, like any request, can raise ClusterFailed or ClusterRefused.
    """

    def __init__(self, agents: Agents, what: str) -> None:
        self.what = what
        self._agents = agents
        self._any = Broker(agents, what)
        self._brokers: dict[int, Broker] = {}
        self._addresses: dict[int, str] = {}
        self.cluster_id = ""

    async def __aenter__(self) -> Self:
        try:
            await self._any.open()
            await self._metadata([])
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for broker in (self._any, *self._brokers.values()):
            await broker.close()

    async def ask(self, form: Message[Q], answer: Message[R], wanted: int, request: Q) -> R:
        """Send a request to the broker at the bootstrap address."""
        return await self._any.ask(form, answer, wanted, request)

    def knows(self, form: Message[Q]) -> bool:
        return self._any.knows(form)

    async def connect(self, node: int) -> Broker:
        """Open a separate connection to a broker that the cluster's metadata lists. The caller must close it."""
        broker = Broker(
            replace(self._agents, addresses=self._addresses[node]), f"{self.what}'s broker {node}"
        )
        await broker.open()
        return broker

    async def broker(self, node: int) -> Broker:
        if node not in self._addresses:
            await self._metadata([])
        if node not in self._addresses:
            raise ClusterFailed(f"{self.what} has no broker {node} at the moment: try again")
        if node not in self._brokers:
            self._brokers[node] = await self.connect(node)
        return self._brokers[node]

    async def coordinator(self, group_id: str) -> Broker:
        answer = await self.ask(
            FIND_COORDINATOR_REQUEST,
            FIND_COORDINATOR_RESPONSE,
            _FIND_COORDINATOR_VERSION,
            FindCoordinatorRequest(group_id),
        )
        if answer.error_code:
            what = f"{self.what} returns no coordinator for group {group_id}"
            raise failure_of(what, answer.error_code)
        return await self.broker(answer.node_id)

    async def topics(self) -> dict[str, TopicThere]:
        """Return all topics except internal ones, by name."""
        found = (await self._metadata(None)).topics
        return {
            each.name: TopicThere.of(each) for each in found if each.name and not each.is_internal
        }

    @property
    def nodes(self) -> Sequence[int]:
        """The ids of the brokers, as of the last metadata request."""
        return sorted(self._addresses)

    async def _metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        # An empty list requests only the brokers, and null requests all topics.
        request = MetadataRequest(None if topics is None else (), allow_auto_topic_creation=False)
        answer = await self.ask(METADATA_REQUEST, METADATA_RESPONSE, _METADATA_VERSION, request)
        self._addresses = {
            each.node_id: join_address(each.host, each.port) for each in answer.brokers
        }
        self.cluster_id = answer.cluster_id or ""
        return answer

    async def by_leader(self, places: Iterable[Place]) -> dict[int, dict[str, list[int]]]:
        """Group partitions by leading node (or NO_LEADER) and topic, leaving out those that do not exist."""
        topics = await self.topics()
        found: dict[int, dict[str, list[int]]] = {}
        for name, index in places:
            if name in topics and index < len(topics[name].leaders):
                led = found.setdefault(topics[name].leaders[index], {})
                led.setdefault(name, []).append(index)
        return found

    async def offsets(
        self, places: Iterable[Place], timestamp: int, isolation: int
    ) -> dict[Place, int]:
        """Return the earliest or latest offsets of existing partitions. Raises ClusterFailed if one has no leader."""
        found: dict[Place, int] = {}
        left = list(places)
        for _ in range(_ATTEMPTS):
            left = await self._ask_offsets(left, timestamp, isolation, found)
            if not left:
                return found
            await asyncio.sleep(_PAUSE_SECONDS)
        name, index = left[0]
        raise ClusterFailed(
            f"partition {index} of topic {name} has no leader in {self.what}: start its brokers"
        )

    async def _ask_offsets(
        self, places: Sequence[Place], timestamp: int, isolation: int, found: dict[Place, int]
    ) -> list[Place]:
        """Add the offsets of partitions to `found`, and return the partitions whose offsets must be requested again."""
        by_leader = await self.by_leader(places)
        leaderless = by_leader.pop(NO_LEADER, {})
        left = [(name, index) for name, indexes in leaderless.items() for index in indexes]
        for leader, wanted in by_leader.items():
            left += await self._ask_leader(leader, wanted, timestamp, isolation, found)
        return left

    async def _ask_leader(
        self,
        leader: int,
        wanted: Mapping[str, Sequence[int]],
        timestamp: int,
        isolation: int,
        found: dict[Place, int],
    ) -> list[Place]:
        request = wire.ListOffsetsRequest(
            -1,
            isolation,
            [
                wire.ListOffsetsTopic(
                    name, [wire.ListOffsetsPartition(each, timestamp=timestamp) for each in indexes]
                )
                for name, indexes in wanted.items()
            ],
        )
        broker = await self.broker(leader)
        answer = await broker.ask(
            wire.LIST_OFFSETS_REQUEST, wire.LIST_OFFSETS_RESPONSE, _LIST_OFFSETS_VERSION, request
        )
        left: list[Place] = []
        for topic in answer.topics:
            for each in topic.partitions:
                place = (topic.name, each.partition_index)
                if each.error_code == ErrorCode.NONE:
                    found[place] = each.offset
                elif each.error_code in MOVING:
                    left.append(place)
                elif each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise ClusterRefused(
                        f"{self.what} did not return the offsets of topic {topic.name}: "
                        f"{name_of(each.error_code)}"
                    )
        return left
