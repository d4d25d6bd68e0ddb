"""The base class of the workload's clients, and the clients that do not write records."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeVar

from lacuna.judge import consumer
from lacuna.judge.client import FENCED, Brokers, Client, DamagedBatch, Lost, Refused
from lacuna.judge.consumer import READ_COMMITTED, READ_UNCOMMITTED, Acquired, Member
from lacuna.judge.history import (
    ACCEPT,
    ACQUIRE,
    BOUNDS,
    COMMIT,
    DAMAGED,
    DIRTY,
    FAIL,
    FIND,
    HW,
    LSO,
    OK,
    READ,
    SETTLE,
    START,
    UNKNOWN,
    Asked,
    Bound,
    Delivery,
    Found,
    History,
    Operation,
    Part,
    Read,
    Settled,
    Take,
)
from lacuna.judge.producer import FAILURES, Persistence

T = TypeVar("T")

#: The number of operations at which a workload ends.
MOST_OPERATIONS: Final = 300_000
ANSWER_BYTES: Final = 16 << 10


class Enough(Exception):
    """The workload's time is up, or its history is full."""


@dataclass(frozen=True, slots=True)
class Chances:
    """The probabilities with which actors do something unusual."""

    aborted: float = 0.35
    #: Closing the connection before a batch's response arrives, and sending a batch again after its response.
    abandoned: float = 0.05
    repeated: float = 0.08
    overtaken: float = 0.05
    #: Requesting a last stable offset before a producer ends its transaction.
    curious: float = 0.1
    #: Holding a share group's records for some time before settling them.
    slow: float = 0.2
    #: Fencing the other producer with the same id instead of waiting for it to end.
    rude: float = 0.15


USUAL: Final = Chances()


@dataclass(slots=True)
class World:
    """The state that all actors share."""

    brokers: Brokers
    random: Random
    now: Callable[[], float]
    now_ms: Callable[[], int]
    #: The number of seconds for which a request is repeated before its outcome counts as unknown.
    patience: float
    chances: Chances = USUAL
    has_tv2: bool = False
    history: History = field(default_factory=list)
    until: float = 0.0
    most_operations: int = MOST_OPERATIONS
    generations: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    failures: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def check_time(self) -> None:
        if self.now() >= self.until or len(self.history) >= self.most_operations:
            raise Enough


class Actor:
    """A named client that records what it observes."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.client = Client(world.brokers)
        self._count = 0

    def record(
        self,
        kind: str,
        start: float,
        outcome: str,
        parts: Sequence[Part] = (),
        *,
        session: str = "",
        asked: float = -1.0,
    ) -> None:
        """Add to the history an operation that ends now."""
        each = Operation(
            self.name, kind, start, self.world.now(), outcome, tuple(parts), session, asked
        )
        self.world.history.append(each)

    def value(self) -> str:
        """Return a value that no other write contains."""
        self._count += 1
        return f"{self.name}.{self._count}"

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request without side effects until it succeeds. Raises Refused, Vague and Lost."""
        return await Persistence(self.client, self.world.patience).persist(attempt)

    async def ask(self, place: str, what: str) -> int:
        """Request the log start, high watermark or last stable offset of a place, and record it. Raises Refused, Vague
        and Lost.
        """
        isolation = READ_COMMITTED if what == LSO else READ_UNCOMMITTED
        timestamp = consumer.EARLIEST if what == START else consumer.LATEST
        start = self.world.now()
        offset = await self.patiently(
            lambda: consumer.bound(self.client, place, isolation, timestamp)
        )
        self.record(BOUNDS, start, OK, [Bound(place, what, offset)])
        return offset

    async def run(self) -> None:
        """Repeat `step` until the workload ends. Failed steps are counted."""
        try:
            while True:
                self.world.check_time()
                start = self.world.now()
                try:
                    await self.step()
                except DamagedBatch:
                    self.record(DAMAGED, start, OK)
                except FAILURES as error:
                    if not isinstance(error, Refused) or error.code not in FENCED:
                        self.world.failures[f"{type(self).__name__}: {error}"] += 1
                    self.client.forget()
                    await asyncio.sleep(0.1)
        except Enough:
            return
        finally:
            self.client.close()

    async def step(self) -> None:
        """Perform the next action. Raises Lost, Refused and Vague."""
        raise NotImplementedError


async def found(actor: Actor, group: str, place: str) -> int:
    """Request a group's committed offset, and record it."""
    start = actor.world.now()
    offset = await actor.patiently(lambda: consumer.found_offset(actor.client, group, place))
    actor.record(FIND, start, OK, [Found(group, place, offset)])
    return offset


async def read_once(
    actor: Actor,
    place: str,
    offset: int,
    isolation: int,
    most_bytes: int = ANSWER_BYTES,
    wait_ms: int = 20,
) -> Read:
    """Send one Fetch. Record it if it advances the position."""
    start = actor.world.now()
    try:
        read = await actor.patiently(
            lambda: consumer.fetch(
                actor.client, place, offset, isolation, most_bytes=most_bytes, wait_ms=wait_ms
            )
        )
    except DamagedBatch as error:
        actor.record(DAMAGED, start, OK)
        raise Lost(str(error), is_unsent=True) from error
    if read.end > offset:
        actor.record(READ if isolation == READ_COMMITTED else DIRTY, start, OK, [read])
    return read


class Reader(Actor):
    """Reads all places under one isolation level, and occasionally rereads a place from an earlier position."""

    def __init__(self, world: World, name: str, isolation: int, places: Sequence[str]) -> None:
        super().__init__(world, name)
        self._isolation = isolation
        self._positions = dict.fromkeys(places, 0)

    async def step(self) -> None:
        random = self.world.random
        place = random.choice(list(self._positions))
        offset = self._positions[place]
        if random.random() < 0.02:
            offset = random.randint(0, offset)
        read = await read_once(
            self, place, offset, self._isolation, random.choice((1 << 10, 4 << 10, ANSWER_BYTES))
        )
        self._positions[place] = max(self._positions[place], read.end)
        await asyncio.sleep(random.random() * 0.02)


class Committer(Actor):
    """Commits increasing offsets for a group of its own, and requests them afterwards.

    After a lost response, it switches to a new group, since the lost request may still arrive and reset the offset.
    """

    def __init__(self, world: World, name: str, group: str, place: str) -> None:
        super().__init__(world, name)
        self._prefix, self._place = group, place
        self._number = 0
        self._offset = 0

    @property
    def _group(self) -> str:
        return f"{self._prefix}-{self._number}"

    async def step(self) -> None:
        self._offset += self.world.random.randint(1, 3)
        start, outcome = self.world.now(), OK
        persistence = Persistence(self.client, self.world.patience)
        group, offset = self._group, self._offset
        try:
            await persistence.persist(
                lambda: consumer.commit_offset(self.client, group, self._place, offset)
            )
        except FAILURES:
            outcome = UNKNOWN if persistence.was_lost else FAIL
            raise
        finally:
            self.record(COMMIT, start, outcome, [Take(group, self._place, offset)])
            self._number += persistence.was_lost
        await found(self, group, self._place)
        await asyncio.sleep(0.05 + self.world.random.random() * 0.1)


class Prober(Actor):
    """Requests the log starts, high watermarks and last stable offsets of places."""

    def __init__(self, world: World, name: str, places: Sequence[str]) -> None:
        super().__init__(world, name)
        self._places = places

    async def step(self) -> None:
        place = self.world.random.choice(self._places)
        await self.ask(place, LSO)
        await self.ask(place, HW)
        if self.world.random.random() < 0.1:
            await self.ask(place, START)
        await asyncio.sleep(self.world.random.random() * 0.03)


class Sharer(Actor):
    """A member of a share group, which accepts most records and releases some."""

    def __init__(self, world: World, name: str, group: str, topic: str) -> None:
        super().__init__(world, name)
        self._group, self._topic = group, topic
        self._member: Member | None = None
        #: The records that the member has not settled.
        self._held: list[Acquired] = []

    async def step(self) -> None:
        await self.take(self.world.random.randint(1, 20))
        await asyncio.sleep(self.world.random.random() * 0.05)

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self.drop()

    async def take(self, most: int) -> int:
        """Acquire records once, and acknowledge them. Return how many were acquired."""
        try:
            member = await self._joined()
            if not member.places:
                return 0
            start = self.world.now()
            asked = [Asked(self._group, place) for place in member.places]
            try:
                acquired = await member.acquire(most, 50)
            except BaseException:
                self.record(ACQUIRE, start, UNKNOWN, asked)
                raise
            deliveries = [
                Delivery(
                    self._group,
                    each.place,
                    each.offset,
                    each.value,
                    each.count,
                    member.lock_seconds,
                )
                for each in acquired
                if each.value is not None
            ]
            self.record(ACQUIRE, start, OK, [*asked, *deliveries])
            self._held = acquired
            if self.world.random.random() < self.world.chances.slow:
                await asyncio.sleep(self.world.random.random() * 0.3)
            await self._settle(member)
        except BaseException:
            await self.drop()
            raise
        return len(acquired)

    async def _joined(self) -> Member:
        if self._member is None:
            member_id = f"{self.world.random.getrandbits(128):032x}"
            await self.client.metadata([self._topic])
            self._member = Member(self.client, self._group, self._topic, member_id)
        await self._member.beat()
        return self._member

    async def _settle(self, member: Member) -> None:
        for place in dict.fromkeys(each.place for each in self._held):
            how = [(each.offset, self._kind(each)) for each in self._held if each.place == place]
            parts = []
            for offset, kind in how:
                said = ACCEPT if kind == consumer.ACCEPTED else "release"
                parts.append(Settled(self._group, place, offset, said))
            start, outcome = self.world.now(), UNKNOWN
            try:
                await member.settle(place, how)
                outcome = OK
            except Refused:
                outcome = FAIL
                raise
            finally:
                self.record(SETTLE, start, outcome, parts)
            self._held = [each for each in self._held if each.place != place]

    def _kind(self, each: Acquired) -> int:
        if each.value is None:
            return consumer.GAP
        # A record that is released too often is never delivered again.
        is_released = each.count < 3 and self.world.random.random() < 0.1
        return consumer.RELEASED if is_released else consumer.ACCEPTED

    async def drop(self) -> None:
        """Leave the group by closing the connections, and later rejoin as a new member.

        When a member's connection closes, brokers release the records that it holds.
        """
        if self._held:
            start = self.world.now()
            parts = [Settled(self._group, each.place, each.offset, "drop") for each in self._held]
            self.record(SETTLE, start, UNKNOWN, parts)
        self._held = []
        if self._member is not None:
            with suppress(*FAILURES):
                await self._member.leave()
        self._member = None
        self.client.close()
