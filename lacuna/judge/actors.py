"""What the clients of the workload do, each on connections of its own, and how they record it."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
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
    INIT,
    LSO,
    OK,
    READ,
    SEND,
    SERIAL,
    SETTLE,
    START,
    TXN,
    UNKNOWN,
    ZOMBIE,
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
    Write,
)
from lacuna.judge.producer import Persistence, Producer, Vague

T = TypeVar("T")

#: A workload records at most so many operations, and ends.
MOST_OPERATIONS: Final = 300_000
_ANSWER_BYTES: Final = 16 << 10
_ABORTED: Final = 0.35
_ABANDONED: Final = 0.05
_REPEATED: Final = 0.08
_OVERTAKEN: Final = 0.05
#: How often a member of a share group holds its records for a while.
_SLOW: Final = 0.2
#: How often a producer does not wait until the other one of its id has ended, and fences it.
_RUDE: Final = 0.15
_FAILURES: Final = (Lost, Refused, Vague)


class Enough(Exception):
    """The workload's time is up, or its history is full."""


@dataclass(slots=True)
class World:
    """What all actors share: the cluster, the clock, the chance, the history, and the generations of producers."""

    brokers: Brokers
    random: Random
    now: Callable[[], float]
    now_ms: Callable[[], int]
    #: How long a request is repeated before its outcome is unknown.
    patience: float
    has_tv2: bool = False
    history: History = field(default_factory=list)
    until: float = 0.0
    most_operations: int = MOST_OPERATIONS
    generations: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    failures: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def check_time(self) -> None:
        """Raise Enough at the end."""
        if self.now() >= self.until or len(self.history) >= self.most_operations:
            raise Enough


class Actor:
    """A client with a name, which records what it observes."""

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
        """Append an operation that ends now."""
        each = Operation(
            self.name, kind, start, self.world.now(), outcome, tuple(parts), session, asked
        )
        self.world.history.append(each)

    def value(self) -> str:
        """Return a value that nobody else writes."""
        self._count += 1
        return f"{self.name}.{self._count}"

    async def patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request without effects until it is answered. Raises Refused, Vague and Lost."""
        return await Persistence(self.client, self.world.patience).persist(attempt)

    async def run(self) -> None:
        """Act until the workload ends. A failed step is counted, and the actor goes on."""
        try:
            while True:
                self.world.check_time()
                start = self.world.now()
                try:
                    await self.step()
                except DamagedBatch:
                    self.record(DAMAGED, start, OK)
                except _FAILURES as error:
                    if not isinstance(error, Refused) or error.code not in FENCED:
                        self.world.failures[f"{type(self).__name__}: {error}"] += 1
                    self.client.forget()
                    await asyncio.sleep(0.1)
        except Enough:
            return
        finally:
            self.client.close()

    async def step(self) -> None:
        """Do the next thing. Raises Lost, Refused and Vague."""
        raise NotImplementedError


class Writing(Actor):
    """An actor with a producer. Producers of the same id fence each other."""

    def __init__(self, world: World, name: str, identity: str | None, version: int) -> None:
        super().__init__(world, name)
        self.identity = identity
        self.version = version
        self.session = ""
        self._producer: Producer | None = None

    def _hurdle(self) -> tuple[int, bool]:
        random = self.world.random
        return int(random.random() < _ABANDONED), random.random() < _REPEATED

    def turn(self) -> AbstractAsyncContextManager[object]:
        """Return what waits for the other producers of the id, or, now and then, for nothing."""
        is_rude = self.world.random.random() < _RUDE
        return nullcontext() if is_rude else self.world.turns[f"{self.identity} acts"]

    async def begin(self) -> Producer:
        """Return a new producer, which fences the earlier ones of its id. Raises Refused, Vague and Lost."""
        world = self.world
        label = self.identity or self.name
        producer = Producer(
            self.client,
            self.identity,
            self.version,
            seconds=world.patience,
            now_ms=world.now_ms,
            hurdle=self._hurdle,
        )
        # One at a time, so that the order of the generations is known.
        async with world.turns[label]:
            world.generations[label] += 1
            self.session = f"{label}#{world.generations[label]}"
            start = world.now()
            self._producer = None
            try:
                await producer.begin()
            except _FAILURES:
                self.record(INIT, start, UNKNOWN, session=self.session)
                raise
            self.record(INIT, start, OK, session=self.session)
        self._producer = producer
        return producer

    async def producer(self) -> Producer:
        """Return the producer, or a new one after one whose requests may still be under way."""
        if self._producer is None or self._producer.is_doubtful:
            return await self.begin()
        return self._producer

    async def send(
        self, producer: Producer, place: str, values: Sequence[str], parts: list[Part]
    ) -> None:
        """Append a batch, and add its writes to `parts`, whatever happens. Raises Refused, Vague and Lost."""
        try:
            answers = await producer.send(place, values)
        except BaseException:
            parts += [Write(place, value) for value in values]
            raise
        for base in dict.fromkeys(answers):
            for delta, value in enumerate(values):
                parts.append(Write(place, value, None if base is None else base + delta))

    async def end(
        self,
        producer: Producer,
        kind: str,
        start: float,
        parts: list[Part],
        *,
        commits: bool,
    ) -> bool:
        """End the transaction, and record it. Return whether it is committed."""
        asked = self.world.now()
        outcome = OK if commits else FAIL
        try:
            await producer.end(commits=commits)
        except (Refused, Lost):
            outcome, self._producer = FAIL, None
        except BaseException:
            outcome, self._producer = UNKNOWN if commits else FAIL, None
            raise
        finally:
            self.record(kind, start, outcome, parts, session=self.session, asked=asked)
        return outcome == OK

    async def give_up(self, producer: Producer, kind: str, start: float, parts: list[Part]) -> None:
        """Abort what failed. Nobody has asked for the commit, so it cannot be committed."""
        self._producer = None
        asked = self.world.now()
        try:
            await producer.end(commits=False)
        finally:
            self.record(kind, start, FAIL, parts, session=self.session, asked=asked)


class Writer(Writing):
    """Writes transactions to several places, and aborts some. Now and then a newer producer overtakes it."""

    def __init__(
        self, world: World, name: str, identity: str, version: int, places: Sequence[str]
    ) -> None:
        super().__init__(world, name, identity, version)
        self._places = places

    async def step(self) -> None:
        random = self.world.random
        producer = await self.producer()
        start, parts = self.world.now(), list[Part]()
        session = self.session
        try:
            for place in random.sample(self._places, random.randint(1, min(3, len(self._places)))):
                for _ in range(random.randint(1, 2)):
                    values = [self.value() for _ in range(random.randint(1, 4))]
                    await self.send(producer, place, values, parts)
        except _FAILURES:
            await self.give_up(producer, TXN, start, parts)
            raise
        if random.random() < _OVERTAKEN:
            await self._be_overtaken(producer, session, start, parts)
            return
        await self.end(producer, TXN, start, parts, commits=random.random() >= _ABORTED)
        await asyncio.sleep(random.random() * 0.03)

    async def _be_overtaken(
        self, producer: Producer, session: str, start: float, parts: list[Part]
    ) -> None:
        """Begin a newer producer of the same id, and let the older one go on as if it did not know."""
        successor = Writing(self.world, self.name, self.identity, self.version)
        self._producer = None
        try:
            await successor.begin()
            await self._haunt(producer, session)
        except BaseException:
            self.record(TXN, start, FAIL, parts, session=session)  # nobody has asked for the commit
            raise
        finally:
            successor.client.close()
        self.session = session
        await self.end(producer, TXN, start, parts, commits=True)

    async def _haunt(self, producer: Producer, session: str) -> None:
        begun, written = self.world.now(), list[Part]()
        place = self.world.random.choice(self._places)
        outcome = UNKNOWN
        try:
            await self.send(producer, place, [self.value()], written)
            outcome = OK
        except Refused:
            outcome = FAIL
        finally:
            self.record(ZOMBIE, begun, outcome, written, session=session)


class Sender(Writing):
    """Writes without transactions, idempotently."""

    def __init__(self, world: World, name: str, places: Sequence[str]) -> None:
        super().__init__(world, name, None, 1)
        self._places = places

    async def step(self) -> None:
        producer = await self.producer()
        random = self.world.random
        values = [self.value() for _ in range(random.randint(1, 3))]
        start, parts, outcome = self.world.now(), list[Part](), UNKNOWN
        try:
            await self.send(producer, random.choice(self._places), values, parts)
            outcome = OK
        except (Refused, Lost):
            outcome, self._producer = FAIL, None
            raise
        except Vague:
            self._producer = None
            raise
        finally:
            self.record(SEND, start, outcome, parts, session=self.session)
        await asyncio.sleep(random.random() * 0.04)


class Loop(Writing):
    """Consumes, processes and produces exactly once: the offset of the input is committed with the output.

    Two loops share each input, and fence each other.
    """

    def __init__(
        self,
        world: World,
        name: str,
        identity: str,
        version: int,
        group: str,
        inputs: str,
        outputs: str,
    ) -> None:
        super().__init__(world, name, identity, version)
        self._group, self._input, self._output = group, inputs, outputs

    async def step(self) -> None:
        async with self.turn():
            await self._consume()
        await asyncio.sleep(self.world.random.random() * 0.1)

    async def _consume(self) -> None:
        random = self.world.random
        producer = await self.begin()
        offset = await found(self, self._group, self._input)
        for _ in range(random.randint(2, 8)):
            self.world.check_time()
            read = await read_once(self, self._input, offset, READ_COMMITTED)
            if not read.records:
                offset = max(offset, read.end)
                continue
            if not await self._process(producer, read, offset):
                return
            offset = read.end
            if producer.is_doubtful:
                return

    async def _process(self, producer: Producer, read: Read, offset: int) -> bool:
        # What was passed without records belongs to what the transaction consumes.
        taken = Read(read.place, offset, read.end, read.records)
        start, parts = self.world.now(), list[Part]([taken])
        try:
            await self.send(producer, self._output, [self.value() for _ in read.records], parts)
            parts.append(Take(self._group, self._input, read.end))
            await producer.commit_offset(self._group, self._input, read.end)
        except _FAILURES:
            await self.give_up(producer, TXN, start, parts)
            raise
        commits = self.world.random.random() >= _ABORTED
        return await self.end(producer, TXN, start, parts, commits=commits)


class Lister(Writing):
    """Appends to lists and reads them, in transactions that exclude each other: each begins by fencing the one before.

    What it reads between the fence and its commit can be changed by nobody else, if it commits.
    """

    def __init__(
        self, world: World, name: str, identity: str, version: int, group: str, lists: Sequence[str]
    ) -> None:
        super().__init__(world, name, identity, version)
        self._group, self._lists = group, lists
        self._known: dict[str, list[tuple[int, str]]] = {place: [] for place in lists}
        self._position: dict[str, int] = dict.fromkeys(lists, 0)

    async def step(self) -> None:
        async with self.turn():
            await self._transact()
        await asyncio.sleep(self.world.random.random() * 0.1)

    async def _transact(self) -> None:
        random = self.world.random
        start, parts = self.world.now(), list[Part]()
        producer = await self.begin()
        register = self._lists[0]
        number = await self.patiently(
            lambda: consumer.found_offset(self.client, self._group, register)
        )
        parts.append(Found(self._group, register, number))
        for place in random.sample(self._lists, 2):
            parts.append(await self._read(place))
        try:
            for place in random.sample(self._lists, random.randint(1, 2)):
                for _ in range(random.randint(1, 2)):
                    await self.send(producer, place, [self.value()], parts)
            parts.append(Take(self._group, register, number + 1))
            await producer.commit_offset(self._group, register, number + 1)
        except _FAILURES:
            await self.give_up(producer, SERIAL, start, parts)
            raise
        commits = random.random() >= _ABORTED / 2
        await self.end(producer, SERIAL, start, parts, commits=commits)

    async def _read(self, place: str) -> Read:
        """Read a list up to its last stable offset. Earlier reads of it are a part of the answer."""
        end = await self.patiently(lambda: consumer.bound(self.client, place, READ_COMMITTED))
        while self._position[place] < end:
            self.world.check_time()
            read = await self.patiently(
                lambda: consumer.fetch(
                    self.client,
                    place,
                    self._position[place],
                    READ_COMMITTED,
                    most_bytes=_ANSWER_BYTES,
                    wait_ms=20,
                )
            )
            self._known[place] += read.records
            self._position[place] = read.end
        first = max(0, len(self._known[place]) - 8)
        tail = tuple(self._known[place][first:])
        start = self._known[place][first - 1][0] + 1 if first else 0
        return Read(place, start, self._position[place], tail)


async def found(actor: Actor, group: str, place: str) -> int:
    """Find the committed offset of a group, and record it."""
    start = actor.world.now()
    offset = await actor.patiently(lambda: consumer.found_offset(actor.client, group, place))
    actor.record(FIND, start, OK, [Found(group, place, offset)])
    return offset


async def read_once(
    actor: Actor,
    place: str,
    offset: int,
    isolation: int,
    most_bytes: int = _ANSWER_BYTES,
    wait_ms: int = 20,
) -> Read:
    """Fetch once, and record it if it passed anything."""
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
    """Follows all places under one isolation level, and begins anew somewhere now and then."""

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
            self, place, offset, self._isolation, random.choice((1 << 10, 4 << 10, _ANSWER_BYTES))
        )
        self._positions[place] = max(self._positions[place], read.end)
        await asyncio.sleep(random.random() * 0.02)


class Committer(Actor):
    """Commits growing offsets of a group of its own, and finds them again.

    After a lost answer it takes a new group, since the lost request may still arrive and set the offset back.
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
        except _FAILURES:
            outcome = UNKNOWN if persistence.was_lost else FAIL
            raise
        finally:
            self.record(COMMIT, start, outcome, [Take(group, self._place, offset)])
            self._number += persistence.was_lost
        await found(self, group, self._place)
        await asyncio.sleep(0.05 + self.world.random.random() * 0.1)


class Prober(Actor):
    """Asks for the ends of the logs."""

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

    async def ask(self, place: str, what: str) -> int:
        """Ask for one end of a log, and record it."""
        isolation = READ_COMMITTED if what == LSO else READ_UNCOMMITTED
        timestamp = consumer.EARLIEST if what == START else consumer.LATEST
        start = self.world.now()
        offset = await self.patiently(
            lambda: consumer.bound(self.client, place, isolation, timestamp)
        )
        self.record(BOUNDS, start, OK, [Bound(place, what, offset)])
        return offset


class Sharer(Actor):
    """A member of a share group. It accepts most records, and releases some."""

    def __init__(self, world: World, name: str, group: str, topic: str, partitions: int) -> None:
        super().__init__(world, name)
        self._group, self._topic, self._partitions = group, topic, partitions
        self._member: Member | None = None
        self._lives = 0
        #: The records that it has not settled.
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
        """Acquire records once, and settle them. Return how many came."""
        try:
            member = await self._joined()
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
            if self.world.random.random() < _SLOW:
                await asyncio.sleep(self.world.random.random() * 0.3)
            await self._settle(member)
        except BaseException:
            await self.drop()
            raise
        return len(acquired)

    async def _joined(self) -> Member:
        if self._member is None:
            self._lives += 1
            member_id = f"{self.world.random.getrandbits(128):032x}"
            await self.client.metadata([self._topic])
            self._member = Member(self.client, self._group, self._topic, member_id)
        await self._member.beat()
        return self._member

    async def _settle(self, member: Member) -> None:
        for place in dict.fromkeys(each.place for each in self._held):
            mine = [each for each in self._held if each.place == place]
            kinds = [self._kind(each) for each in mine]
            parts = [
                Settled(
                    self._group,
                    place,
                    each.offset,
                    ACCEPT if kind == consumer.ACCEPTED else "release",
                )
                for each, kind in zip(mine, kinds, strict=True)
            ]
            start, outcome = self.world.now(), UNKNOWN
            try:
                how = [(each.offset, kind) for each, kind in zip(mine, kinds, strict=True)]
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
        """Leave, to begin anew as another member. Brokers release what a member holds when its connection ends."""
        if self._held:
            start = self.world.now()
            parts = [Settled(self._group, each.place, each.offset, "drop") for each in self._held]
            self.record(SETTLE, start, UNKNOWN, parts)
        self._held = []
        if self._member is not None:
            with suppress(*_FAILURES):
                await self._member.leave()
        self._member = None
        self.client.close()
