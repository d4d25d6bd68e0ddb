"""Exactly-once loops and plain consumers that commit, over one input topic, and the positions of their groups.

A loop writes one output for each input, to the same partition number, and commits both in one transaction (KIP-447). An
output names its input and its write: `effect(partition, offset, value)@name:number`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lacuna.controlplane.shared.errors import ErrorCode
from tests.faults.history import History as LoopHistory
from tests.faults.history import effect, violations
from tests.messages import REQUESTS, make, nested
from tests.simulation.consumers import Consumer
from tests.simulation.groups import Member
from tests.simulation.history import EARLIEST, History, Place, Read, Transaction
from tests.simulation.kafka import RETRIABLE, Client, KafkaError, Unanswered
from tests.simulation.memberships import Group
from tests.simulation.producers import Fatal, TransactionalProducer

INPUT: Final = "in"
OUTPUT: Final = "out"
#: A member buffers so many records of a partition before it has to process some.
BUFFERED: Final = 50
#: The group has gone on without this member: its transaction must be aborted.
OUT_OF_GROUP: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
_NOTHING: Final = -1


class OutOfGroup(Exception):
    """The member may not commit, because the group has continued without it."""


class Positions:
    """What the members know about a group's committed offsets, which never go back on their own."""

    def __init__(self, group: Group, history: History) -> None:
        self.group = group
        self._history = history
        self._sent: defaultdict[tuple[int, int], list[Transaction | None]] = defaultdict(list)
        #: What the position is at least, and how often a late commit has moved it back.
        self._least: dict[int, int] = {}
        self._backs: defaultdict[int, int] = defaultdict(int)
        self._doubtful: set[tuple[int, int]] = set()

    def sends(self, offsets: Mapping[int, int], transaction: Transaction | None) -> None:
        """Note that a member commits these offsets by partition, possibly in a transaction."""
        for key in offsets.items():
            self._sent[key].append(transaction)

    def doubts(self, offsets: Mapping[int, int]) -> None:
        """Note that a commit outside a transaction was not answered, and may arrive after later ones."""
        self._doubtful.update(offsets.items())

    def backs(self) -> Mapping[int, int]:
        """Return the state for `acknowledged`. Call it before sending a commit."""
        return dict(self._backs)

    def acknowledged(self, offsets: Mapping[int, int], backs: Mapping[int, int]) -> None:
        """Note that a commit was answered."""
        self._history.counts["offsets committed"] += 1
        for partition, offset in offsets.items():
            if backs.get(partition, 0) == self._backs[partition]:
                self._least[partition] = max(offset, self._least.get(partition, _NOTHING))

    def least(self) -> Mapping[int, int]:
        """Return the state for `found`. Call it before requesting positions."""
        return dict(self._least)

    def found(self, who: str, partition: int, offset: int, least: Mapping[int, int]) -> None:
        """Note that a client received a position."""
        at = least.get(partition, _NOTHING)
        name = f"{who} is told that {self.group.name} stands at {offset} of partition {partition}"
        if offset == _NOTHING and at == _NOTHING:
            return
        if not any(each is None or each.may_commit for each in self._sent[partition, offset]):
            self._history.wrong(f"{name}, which nobody has committed")
        elif offset >= at:
            self._least[partition] = max(offset, self._least.get(partition, _NOTHING))
        elif (partition, offset) in self._doubtful:
            self._backs[partition] += 1
            self._least[partition] = offset
        else:
            self._history.wrong(f"{name}, and it stood at {at} before")


class GroupReader:
    """Reads the input from the group's positions. The base of loops and plain consumers."""

    def __init__(self, name: str, member: Member, history: History, positions: Positions) -> None:
        self.name = name
        self.member = member
        self.client = member.client
        self.random = member.client.random
        self.history = history
        self.positions = positions
        #: Called for progress: a commit, or a member that has nothing to do.
        self.served, self.client.served = self.client.served, lambda: None
        self._consumer = Consumer(name, self.client, history, self.random, isolation=1)
        self._incarnation = -1
        self._reads: dict[int, Read] = {}

    async def run(self) -> None:
        """Work forever, in parallel with the heartbeats."""
        await asyncio.gather(self.member.beat_forever(), self._work())

    async def _work(self) -> None:
        raise NotImplementedError

    async def poll(self) -> dict[int, list[tuple[int, bytes]]]:
        """Return the next inputs by partition, if there are any. Raises KafkaError."""
        if self.random.random() < 0.03:
            self.history.counts["members that left"] += 1
            await self.member.leave()
            await asyncio.sleep(self.random.random())
        await self.member.ready()
        if self._incarnation != self.member.incarnation:
            self._incarnation = self.member.incarnation
            self._reads.clear()
        self._reads = {at: read for at, read in self._reads.items() if at in self.member.assigned}
        if not self.member.assigned:
            self.served()
            await asyncio.sleep(0.2)
        await self._resume()
        await asyncio.gather(*(self._fetch(at, read) for at, read in self._reads.items()))
        count = self.random.randint(1, 20)
        return {at: read.rows[:count] for at, read in self._reads.items() if read.rows}

    def rewind(self) -> None:
        """Make the next poll begin at the committed positions."""
        self._reads.clear()

    def processed(self, rows: Mapping[int, Sequence[object]]) -> None:
        """Advance past inputs whose effects are committed."""
        for partition, some in rows.items():
            del self._reads[partition].rows[: len(some)]
        self.served()

    async def _fetch(self, partition: int, read: Read) -> None:
        place = (INPUT, partition)
        if len(read.rows) >= BUFFERED:
            return
        try:
            answer = await self._consumer.fetch(place, read.position, max_wait_ms=200)
        except Unanswered:
            self.client.forget_leader(INPUT)
            await self.client.pause()
            return
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._consumer.take(place, read, answer)
        elif code in RETRIABLE:
            self.client.forget_leader(INPUT)
            await self.client.pause()
        else:
            self.history.wrong(
                f"{self.name} could not fetch {place} at {read.position}: {code.name}"
            )

    async def _resume(self) -> None:
        missing = self.member.assigned - self._reads.keys()
        while missing:
            try:
                found = await fetch_positions(self.member, self.positions, self.name, missing)
                for partition, offset in found.items():
                    if offset == _NOTHING:
                        offset = await self._consumer.offset((INPUT, partition), EARLIEST)
                    self._reads[partition] = Read(offset, offset)
            except OutOfGroup:
                await self.client.pause()
                return
            except Unanswered:
                self.client.forget_leader(INPUT)
            missing = self.member.assigned - self._reads.keys()
            if missing:
                await self.client.pause()


async def fetch_positions(
    member: Member, positions: Positions, who: str, partitions: frozenset[int]
) -> dict[int, int]:
    """Return the group's stable positions. Raises Unanswered, OutOfGroup, KafkaError."""
    version = member.client.random.choice((7, 8, 9))
    least = positions.least()
    answer = await member.ask(
        9, version, require_stable=True, **_asked_positions(member, version, sorted(partitions))
    )
    group = answer if version < 8 else answer.groups[0]
    if group.error_code in OUT_OF_GROUP:
        raise OutOfGroup(ErrorCode(group.error_code).name)
    found = {}
    if not member.lost_coordinator(group.error_code):
        _raise_unless_none(group.error_code, "fetch offsets")
        for each in group.topics[0].partitions:
            if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                continue
            _raise_unless_none(each.error_code, "fetch an offset")
            positions.found(who, each.partition_index, each.committed_offset, least)
            found[each.partition_index] = each.committed_offset
    return found


def _asked_positions(member: Member, version: int, partitions: Sequence[int]) -> dict[str, Any]:
    topic = {"name": INPUT, "partition_indexes": partitions}
    if version < 8:
        topics = (nested(9, version, "OffsetFetchRequestTopic", **topic),)
        return {"group_id": member.group.name, "topics": topics}
    topics = (nested(9, version, "OffsetFetchRequestTopics", **topic),)
    named = member.names_itself() if version >= 9 else {}
    group = nested(
        9, version, "OffsetFetchRequestGroup", group_id=member.group.name, topics=topics, **named
    )
    return {"groups": (group,)}


def _raise_unless_none(code: int, what: str) -> None:
    if code:
        raise KafkaError(code, what)


class LoopProducer(TransactionalProducer):
    """A transactional producer that can also commit offsets for a group."""

    async def add_offsets(self, group: str) -> None:
        """Add a group to the transaction, which is needed only in the first protocol. Raises Fatal."""
        request = make(
            REQUESTS[25].body,
            3,
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            group_id=group,
        )
        while code := ErrorCode((await self.ask_coordinator(25, 3, request)).error_code):
            await self.recover(code)

    async def commit_offsets(self, member: Member, offsets: Mapping[int, int]) -> None:
        """Commit input offsets in the transaction. Raises OutOfGroup, Fatal."""
        version = 5 if self.is_second else self.random.choice((3, 4))
        while True:
            generation, member_id = member.metadata
            try:
                answer = await member.ask(
                    28,
                    version,
                    transactional_id=self.transactional_id,
                    group_id=member.group.name,
                    producer_id=self.identity.producer_id,
                    producer_epoch=self.identity.epoch,
                    generation_id_or_member_epoch=generation,
                    member_id=member_id,
                    group_instance_id=member.instance_id,
                    topics=_offsets(28, version, "TxnOffsetCommit", offsets),
                )
            except Unanswered:
                await self.client.pause()
                continue
            code = _code_of(answer)
            if code == ErrorCode.NONE:
                return
            if code in OUT_OF_GROUP:
                raise OutOfGroup(code.name)
            if not member.lost_coordinator(code):
                raise Fatal(code.name)
            await self.client.pause()


def _code_of(answer: Any) -> ErrorCode:
    codes = {ErrorCode(each.error_code) for each in answer.topics[0].partitions}
    return max(codes - {ErrorCode.NONE}, default=ErrorCode.NONE)


def _offsets(key: int, version: int, prefix: str, offsets: Mapping[int, int]) -> tuple[object, ...]:
    partitions = tuple(
        nested(
            key,
            version,
            f"{prefix}RequestPartition",
            partition_index=partition,
            committed_offset=offset,
        )
        for partition, offset in offsets.items()
    )
    return (nested(key, version, f"{prefix}RequestTopic", name=INPUT, partitions=partitions),)


class ExactlyOnceLoop(GroupReader):
    """Consumes, produces and commits both in one transaction."""

    def __init__(
        self,
        name: str,
        transactional_id: str,
        member: Member,
        history: History,
        positions: Positions,
        *,
        is_second: bool,
    ) -> None:
        super().__init__(name, member, history, positions)
        self._producer = LoopProducer(
            name, transactional_id, self.client, history, self.random, is_second=is_second
        )
        # Some take so long that the group goes on without them, as they do not poll.
        self._nap = self.random.choice((0.0, 0.0, 0.5, 9.0))
        self._timeouts_ms = (20_000,) if self._nap > 3 else (3_000, 10_000, 10_000)

    async def _work(self) -> None:
        while True:
            try:
                await self._producer.init(self.random.choice(self._timeouts_ms))
                while True:
                    if rows := await self.poll():
                        await self._process(rows)
            except (Fatal, KafkaError, Unanswered) as error:
                self.history.counts[f"loop: {error}"] += 1
                self.rewind()
                await self.client.pause()

    async def _process(self, rows: Mapping[int, Sequence[tuple[int, bytes]]]) -> None:
        transaction = self._producer.begin()
        commits = self.random.random() < 0.8
        try:
            await self._fill(transaction, rows)
        except OutOfGroup as error:
            self.history.counts[f"loop: {error}"] += 1
            commits = False
        backs = self.positions.backs()
        await self._producer.end(transaction, commits=commits)
        if commits:
            self.positions.acknowledged(_behind(rows), backs)
            self.processed(rows)
        else:
            self.rewind()
            self.served()

    async def _fill(
        self, transaction: Transaction, rows: Mapping[int, Sequence[tuple[int, bytes]]]
    ) -> None:
        producer, offsets = self._producer, _behind(rows)
        if not producer.is_second:
            await producer.add_partitions([(OUTPUT, partition) for partition in rows])
            await producer.add_offsets(self.member.group.name)
        for partition, some in rows.items():
            await producer.deliver((OUTPUT, partition), self._outputs(partition, some))
        await asyncio.sleep(self._nap * self.random.random())
        self.positions.sends(offsets, transaction)
        await producer.commit_offsets(self.member, offsets)
        await asyncio.sleep(self.random.choice((0.0, 0.0, 0.0, 0.3)) * self.random.random())

    def _outputs(
        self, partition: int, rows: Sequence[tuple[int, bytes]]
    ) -> Sequence[Sequence[bytes]]:
        values = [
            effect(partition, offset, value) + b"@" + self._producer.value()
            for offset, value in rows
        ]
        size = self.random.randint(1, 8)
        return [values[at : at + size] for at in range(0, len(values), size)]


def _behind(rows: Mapping[int, Sequence[tuple[int, bytes]]]) -> dict[int, int]:
    return {partition: some[-1][0] + 1 for partition, some in rows.items()}


class CommittingConsumer(GroupReader):
    """Consumes, and commits its positions outside transactions."""

    async def _work(self) -> None:
        while True:
            try:
                if rows := await self.poll():
                    await asyncio.sleep(0.2 * self.random.random())
                    await self._commit(rows)
            except OutOfGroup as error:
                self.history.counts[f"consumer: {error}"] += 1
                self.rewind()
                await self.client.pause()
            except Unanswered:
                await self.client.pause()

    async def _commit(self, rows: Mapping[int, Sequence[tuple[int, bytes]]]) -> None:
        version = self.random.choice(self.member.commit_versions)
        offsets, backs = _behind(rows), self.positions.backs()
        self.positions.sends(offsets, None)
        while True:
            generation, member_id = self.member.metadata
            try:
                answer = await self.member.ask(
                    8,
                    version,
                    group_id=self.member.group.name,
                    generation_id_or_member_epoch=generation,
                    member_id=member_id,
                    group_instance_id=self.member.instance_id,
                    topics=_offsets(8, version, "OffsetCommit", offsets),
                )
            except Unanswered:
                self.positions.doubts(offsets)
                await self.client.pause()
                continue
            code = _code_of(answer)
            if code == ErrorCode.NONE:
                break
            if code in OUT_OF_GROUP:
                raise OutOfGroup(code.name)
            if not self.member.lost_coordinator(code):
                raise KafkaError(code, "commit offsets")
            await self.client.pause()
        self.positions.acknowledged(offsets, backs)
        self.processed(rows)


async def positions_at_the_end(
    client: Client, positions: Positions, partitions: Sequence[int]
) -> dict[int, int]:
    """Return the group's positions, retrying until they are answered."""
    member = Member(positions.group, client, None)
    while True:
        try:
            found = await fetch_positions(
                member, positions, "the last reader", frozenset(partitions)
            )
        except Unanswered:
            found = {}
        if len(found) == len(partitions):
            return found
        await client.pause()


def check_loop(
    history: History, positions: Mapping[int, int], committed: Mapping[Place, Read]
) -> None:
    """Check that each input up to the group's positions has its effect once, in order."""
    partitions = sorted(number for topic, number in committed if topic == INPUT)
    at = {each: max(positions.get(each, _NOTHING), 0) for each in partitions}
    found = violations(
        LoopHistory(
            inputs={},
            read={
                each: [row for row in committed[INPUT, each].rows if row[0] < at[each]]
                for each in partitions
            },
            outputs={
                each: [value.rpartition(b"@")[0] for _, value in committed[OUTPUT, each].rows]
                for each in partitions
            },
            positions=at,
        )
    )
    for each in found:
        history.wrong(f"exactly-once loop: {each}")
