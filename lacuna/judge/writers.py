"""The clients that write records: in transactions, in idempotent batches, in exactly-once loops, and in lists."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from lacuna.judge import consumer
from lacuna.judge.actors import ANSWER_BYTES, Actor, World, found, read_once
from lacuna.judge.client import Lost, Refused
from lacuna.judge.consumer import READ_COMMITTED
from lacuna.judge.history import (
    FAIL,
    INIT,
    LSO,
    OK,
    SEND,
    SERIAL,
    TXN,
    UNKNOWN,
    ZOMBIE,
    Found,
    Part,
    Read,
    Take,
    Write,
)
from lacuna.judge.producer import FAILURES, Producer, Vague


class Writing(Actor):
    """An actor with a producer. Producers with the same id fence each other."""

    def __init__(self, world: World, name: str, identity: str | None, version: int) -> None:
        super().__init__(world, name)
        self.identity = identity
        self.version = version
        self.session = ""
        self._producer: Producer | None = None

    def _hurdle(self) -> tuple[int, bool]:
        random, chances = self.world.random, self.world.chances
        return int(random.random() < chances.abandoned), random.random() < chances.repeated

    def turn(self) -> AbstractAsyncContextManager[object]:
        """Return a context that usually waits for other producers with the same id, but occasionally does not."""
        is_rude = self.world.random.random() < self.world.chances.rude
        return nullcontext() if is_rude else self.world.turns[f"{self.identity} acts"]

    async def begin(self) -> Producer:
        """Return a new producer, which fences earlier ones with the same id. Raises Refused, Vague and Lost."""
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
            except FAILURES:
                self.record(INIT, start, UNKNOWN, session=self.session)
                raise
            self.record(INIT, start, OK, session=self.session)
        self._producer = producer
        return producer

    async def producer(self) -> Producer:
        """Return the producer, or a new one if the current one's requests may still be in progress."""
        if self._producer is None or self._producer.is_doubtful:
            return await self.begin()
        return self._producer

    async def send(
        self, producer: Producer, place: str, values: Sequence[str], parts: list[Part]
    ) -> None:
        """Append a batch, and add its writes to `parts` even if it fails. Raises Refused, Vague and Lost."""
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
        """End the transaction and record it. Return whether it was committed."""
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
        """Abort a failed transaction. It cannot have been committed, since its commit was never requested."""
        await self.end(producer, kind, start, parts, commits=False)
        self._producer = None


class Writer(Writing):
    """Writes transactions to several places, aborts some of them, and is occasionally overtaken by a newer producer."""

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
                if random.random() < self.world.chances.curious:
                    await self.ask(place, LSO)
        except FAILURES:
            await self.give_up(producer, TXN, start, parts)
            raise
        if random.random() < self.world.chances.overtaken:
            await self._be_overtaken(producer, session, start, parts)
            return
        commits = random.random() >= self.world.chances.aborted
        await self.end(producer, TXN, start, parts, commits=commits)
        await asyncio.sleep(random.random() * 0.03)

    async def _be_overtaken(
        self, producer: Producer, session: str, start: float, parts: list[Part]
    ) -> None:
        """Begin a newer producer with the same id, and let the older one continue as if unaware of it."""
        successor = Writing(self.world, self.name, self.identity, self.version)
        self._producer = None
        try:
            await successor.begin()
            await self._haunt(producer, session)
        except BaseException:
            self.record(TXN, start, FAIL, parts, session=session)  # its commit was never requested
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
        except FAILURES as error:
            outcome = UNKNOWN if isinstance(error, Vague) else FAIL
            self._producer = None
            raise
        finally:
            self.record(SEND, start, outcome, parts, session=self.session)
        await asyncio.sleep(random.random() * 0.04)


class Loop(Writing):
    """Consumes, processes and produces exactly once, by committing the input's offset together with the output.

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
        # The transaction also consumes the passed offsets that have no records.
        taken = Read(read.place, offset, read.end, read.records)
        start, parts = self.world.now(), list[Part]([taken])
        try:
            await self.send(producer, self._output, [self.value() for _ in read.records], parts)
            parts.append(Take(self._group, self._input, read.end))
            await producer.commit_offset(self._group, self._input, read.end)
        except FAILURES:
            await self.give_up(producer, TXN, start, parts)
            raise
        commits = self.world.random.random() >= self.world.chances.aborted
        return await self.end(producer, TXN, start, parts, commits=commits)


class Lister(Writing):
    """Appends to lists and reads them in serial transactions, each of which fences its predecessor.

    If a transaction commits, no other one can have changed what it read between the fencing and the commit.
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
        except FAILURES:
            await self.give_up(producer, SERIAL, start, parts)
            raise
        commits = random.random() >= self.world.chances.aborted / 2
        await self.end(producer, SERIAL, start, parts, commits=commits)

    async def _read(self, place: str) -> Read:
        """Read a list up to its last stable offset. Return its last few records, including ones read earlier."""
        end = await self.patiently(lambda: consumer.bound(self.client, place, READ_COMMITTED))
        while self._position[place] < end:
            self.world.check_time()
            read = await self.patiently(
                lambda: consumer.fetch(
                    self.client,
                    place,
                    self._position[place],
                    READ_COMMITTED,
                    most_bytes=ANSWER_BYTES,
                    wait_ms=20,
                )
            )
            self._known[place] += read.records
            self._position[place] = read.end
        first = max(0, len(self._known[place]) - 8)
        tail = tuple(self._known[place][first:])
        start = self._known[place][first - 1][0] + 1 if first else 0
        return Read(place, start, self._position[place], tail)
