"""Members of consumer groups with the classic and the KIP-848 protocol, modelled on the Java client and librdkafka.

A member's `ready` corresponds to a consumer's poll: it joins, or revokes partitions. Between two calls, it keeps its
partitions, whatever its heartbeats learn.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Sequence
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.verbs.groups.consumer.embedded import read_assignment, write_assignment
from tests.messages import REQUESTS, make, nested
from tests.simulation.history import History
from tests.simulation.kafka import RETRIABLE, Client, KafkaError, Unanswered
from tests.simulation.memberships import PATIENCE, REBALANCE_MS, SESSION_MS, Group, Known

BEAT_EVERY: Final = 1.5
#: Of members whose group is never at rest.
ROAMER_BEAT_EVERY: Final = 0.25
#: Fields of GroupSettings. Members of KIP-848's protocol do not choose their session timeout.
SETTINGS: Final = {"consumer_session_timeout_ms": SESSION_MS}


class Member:
    """One member of a group that reads one topic. The base for both protocols."""

    #: Of OffsetCommit.
    commit_versions: tuple[int, ...] = (7, 8, 9)

    def __init__(self, group: Group, client: Client, instance_id: str | None) -> None:
        self.group = group
        self.topic = group.topic
        self.client = client
        self.instance_id = instance_id
        self.member_id = ""
        self.assigned: frozenset[int] = frozenset()
        #: The generation and member id under which `assigned` was got; they go with every commit.
        self.metadata: tuple[int, str] = (-1, "")
        #: Grows when what was assigned before need not be this member's any more.
        self.incarnation = 0
        self._partitions = group.partitions

    async def ready(self) -> None:
        """Return when the member is in the group and knows its partitions. Raises KafkaError."""
        raise NotImplementedError

    async def beat_forever(self) -> None:
        """Keep the session alive."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Leave the group, as a closed consumer does. The next `ready` joins again."""
        raise NotImplementedError

    async def ask(
        self, key: int, version: int, *, timeout: float | None = None, **fields: Any
    ) -> Any:
        """Send a request to the group's coordinator, once. Raises Unanswered."""
        request = make(REQUESTS[key].body, version, **fields)
        return await self.client.coordinated(
            0, self.group.name, key, version, request, timeout=timeout
        )

    def names_itself(self) -> dict[str, Any]:
        """Return the fields that identify the member in an OffsetFetch."""
        return {}

    def lost_coordinator(self, code: int) -> bool:
        """Return whether to retry the request after looking up the coordinator again."""
        if code in RETRIABLE:
            self.client.forget_coordinator(0, self.group.name)
        return code in RETRIABLE


class ClassicMember(Member):
    """Uses JoinGroup, SyncGroup, Heartbeat and LeaveGroup. It revokes everything when it rejoins."""

    def __init__(self, group: Group, client: Client, instance_id: str | None) -> None:
        super().__init__(group, client, instance_id)
        self._must_join = True
        self._version = client.random.choice((5, 7, 9))

    async def ready(self) -> None:
        while self._must_join:
            self.assigned = frozenset()
            try:
                await self._join()
            except Unanswered:
                await self.client.pause()

    async def _join(self) -> None:
        protocol = nested(
            11,
            self._version,
            "JoinGroupRequestProtocol",
            name="range",
            metadata=_subscription(self.topic),
        )
        joined = await self.ask(
            11,
            self._version,
            timeout=REBALANCE_MS / 1000 + 5,
            group_id=self.group.name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        code = ErrorCode(joined.error_code)
        if code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = joined.member_id
        if code == ErrorCode.NONE:
            await self._sync(joined)
        elif code != ErrorCode.MEMBER_ID_REQUIRED:
            await self._refused(code, "join")

    async def _sync(self, joined: Any) -> None:
        leads = joined.leader == joined.member_id and not getattr(joined, "skip_assignment", False)
        named = {"protocol_type": "consumer", "protocol_name": "range"}
        synced = await self.ask(
            14,
            5,
            timeout=REBALANCE_MS / 1000 + 5,
            group_id=self.group.name,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.instance_id,
            **named,
            assignments=self._assign([each.member_id for each in joined.members]) if leads else (),
        )
        code = ErrorCode(synced.error_code)
        if code == ErrorCode.NONE:
            self.assigned = read_assignment(bytes(synced.assignment)).get(self.topic, frozenset())
            self.metadata = (joined.generation_id, joined.member_id)
            self.incarnation += 1
            self._must_join = False
        else:
            await self._refused(code, "sync")

    def _assign(self, member_ids: Sequence[str]) -> tuple[object, ...]:
        """Distribute the partitions differently, so that they move."""
        order = list(member_ids)
        self.client.random.shuffle(order)
        return tuple(
            nested(
                14,
                5,
                "SyncGroupRequestAssignment",
                member_id=member_id,
                assignment=write_assignment(
                    {self.topic: frozenset(range(number, self._partitions, len(order)))}, 0
                ),
            )
            for number, member_id in enumerate(order)
        )

    async def _refused(self, code: ErrorCode, what: str) -> None:
        if not self._must_join_for(code) and not self.lost_coordinator(code):
            raise KafkaError(code, what)
        await self.client.pause()

    def _must_join_for(self, code: ErrorCode) -> bool:
        """Handle an error if it makes a member rejoin. Return whether it does."""
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            # A late request of an earlier process can fence an instance id.
            self.member_id = ""
        elif code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return False
        self._must_join = True
        return True

    async def beat_forever(self) -> None:
        while True:
            await asyncio.sleep(BEAT_EVERY)
            if not self._must_join:
                await self._beat()

    async def _beat(self) -> None:
        before = self.metadata
        try:
            answer = await self.ask(
                12,
                4,
                group_id=self.group.name,
                generation_id=before[0],
                member_id=before[1],
                group_instance_id=self.instance_id,
            )
        except Unanswered:
            return
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE or before != self.metadata or self._must_join:
            return
        if not self._must_join_for(code) and not self.lost_coordinator(code):
            raise KafkaError(code, "heartbeat")

    async def leave(self) -> None:
        self.assigned = frozenset()
        self._must_join = True
        member = nested(
            13, 4, "MemberIdentity", member_id=self.member_id, group_instance_id=self.instance_id
        )
        self.member_id = ""
        if self.instance_id is None:
            await self.ask(13, 4, group_id=self.group.name, members=(member,))


class ConsumerMember(Member):
    """Uses ConsumerGroupHeartbeat: its heartbeats learn new targets, and `ready` applies them."""

    commit_versions = (9,)
    beat_every: float = BEAT_EVERY

    def __init__(self, group: Group, client: Client, instance_id: str | None) -> None:
        super().__init__(group, client, instance_id)
        group.join(self)
        self._version = client.random.choice((0, 1))
        self.epoch = 0
        #: What the member had when it owed the group nothing, and when it sent the heartbeat that was answered so.
        self._confirmed: frozenset[int] = frozenset()
        self.confirmed_at = -math.inf
        #: Whether a request was not answered by the group since the member joined: it may still be served, and tell the
        #: group of an earlier state.
        self.is_doubtful = False
        #: Whether the group took partitions away and has not been told since what the member has. After the rebalance
        #: timeout it puts the member out, even if that never took over what it was to give up. Java's members keep
        #: silent in that case too.
        self._is_owing = False
        #: Where the group had the member when it did not say so in its last answer.
        self.untold: Known | None = None
        self._topic_id = b""
        self.target: frozenset[int] = frozenset()
        #: Whether the group has put the member out: it joins again once `ready` has given up its partitions.
        self._is_out = True
        #: Whether the next heartbeat has all fields: the last was not answered, or partitions have changed.
        self._tells_all = False
        self._wakes = asyncio.Event()
        self._joined = asyncio.Event()
        self._beating = asyncio.Lock()

    async def ready(self) -> None:
        while self._is_out:
            self.assigned = self.target = frozenset()
            self._confirmed, self.confirmed_at = frozenset(), -math.inf
            self.is_doubtful = False
            self.incarnation += 1
            self.epoch = 0
            self._is_out = False
            self._joined.clear()
            await self.client.pause()
            self._wakes.set()
            await self._joined.wait()
        if self.assigned != self.target:
            self.assigned = self.target
            self._confirmed &= self.assigned
            self._tells_all = True
            self._wakes.set()

    async def beat_forever(self) -> None:
        while True:
            if not self._is_out:
                await self._beat()
            try:
                async with asyncio.timeout(self.beat_every):
                    await self._wakes.wait()
            except TimeoutError:
                continue
            self._wakes.clear()

    def held(self) -> frozenset[int]:
        """Return the partitions that it certainly still holds, and no other member may receive."""
        if self._is_out or self.is_doubtful:
            return frozenset()
        is_in_time = self.group.now() < self.confirmed_at + PATIENCE
        return self._confirmed if is_in_time else frozenset()

    async def _beat(self) -> None:
        async with self._beating:
            sent_at, epoch = self.group.now(), self.epoch
            is_telling = epoch == 0 or self._tells_all
            try:
                answer = await self._send()
            except Unanswered:
                self._tells_all = self.is_doubtful = True
                return
            if self._is_out:
                return
            code = ErrorCode(answer.error_code)
            if code != ErrorCode.NONE:
                self._refused(code, sent_at)
                return
            self._is_owing &= not is_telling
            self._take(answer)
            if self.group.heard(self, epoch, sent_at):
                self._is_heard(sent_at)

    def _is_heard(self, sent_at: float) -> None:
        """Record that an answer shows that the group has processed an earlier request."""
        if self.assigned <= self.target and not (self._tells_all or self._is_owing):
            self._confirmed, self.confirmed_at = self.target, sent_at
        self.group.told(self, sent_at)

    async def _send(self) -> Any:
        if self.epoch == 0 and self._version == 1 and not self.member_id:
            self.member_id = f"{self.client.random.getrandbits(128):032x}"
        fields: dict[str, Any] = {}
        if self.epoch == 0 or self._tells_all:
            self._tells_all = False
            fields = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "subscribed_topic_names": (self.topic,),
                "server_assignor": self.client.random.choice((None, "uniform", "range")),
                "topic_partitions": self._owned(),
            }
        return await self._ask(self.epoch, **fields)

    async def _ask(self, epoch: int, **fields: Any) -> Any:
        return await self.ask(
            68,
            self._version,
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            **fields,
        )

    def _owned(self) -> tuple[object, ...]:
        if not self.assigned:
            return ()
        partitions = tuple(sorted(self.assigned))
        return (
            nested(
                68,
                self._version,
                "TopicPartitions",
                topic_id=self._topic_id,
                partitions=partitions,
            ),
        )

    def _take(self, answer: Any) -> None:
        self.member_id = answer.member_id
        self.epoch = answer.member_epoch
        self.metadata = (self.epoch, self.member_id)
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            target = frozenset(number for row in rows for number in row.partitions)
            self.group.given(self, target - self.target)
            self._is_owing |= not self.target <= target
            self.target = target
            if rows:
                self._topic_id = rows[0].topic_id
        self._joined.set()

    def _refused(self, code: ErrorCode, sent_at: float) -> None:
        if code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,  # its last member of this protocol was put out
        ):
            self.group.refused(self, code, sent_at)
            self._is_out = True
            self._joined.set()
        elif self.lost_coordinator(code):
            self._tells_all = True
            # An agent that sends its clients away has not passed on what they asked.
            self.is_doubtful |= code != ErrorCode.NOT_COORDINATOR
        elif (
            code != ErrorCode.UNRELEASED_INSTANCE_ID
        ):  # else until the session of its last process ends
            raise KafkaError(code, "consumer group heartbeat")

    async def leave(self) -> None:
        self._is_out = True
        self.assigned = frozenset()
        async with self._beating:
            try:
                await self._ask(-1 if self.instance_id is None else -2)
            finally:
                self.member_id = ""

    def names_itself(self) -> dict[str, Any]:
        return {"member_id": self.metadata[1], "member_epoch": self.metadata[0]}


class Roamer:
    """A consumer that reads nothing. It applies its assignments, and repeatedly leaves the group."""

    def __init__(self, member: ConsumerMember, history: History) -> None:
        self._member = member
        member.beat_every = ROAMER_BEAT_EVERY
        self._random = member.client.random
        self._history = history

    async def run(self) -> None:
        """Roam forever, in parallel with the heartbeats."""
        await asyncio.gather(self._member.beat_forever(), self._roam())

    async def _roam(self) -> None:
        while True:
            before = self._member.confirmed_at
            await self._member.ready()
            await asyncio.sleep(0.6 * self._random.random())
            if self._member.confirmed_at > before:
                self._member.client.served()
            if self._random.random() < 0.2:
                await self._leave()

    async def _leave(self) -> None:
        self._history.counts["members that left"] += 1
        try:
            await self._member.leave()
        except Unanswered:
            await self._member.client.pause()


def _subscription(topic: str) -> bytes:
    """Return ConsumerProtocol's subscription v0 to one topic, without user data."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)
