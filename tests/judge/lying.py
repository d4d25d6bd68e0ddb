"""A proxy between clients and a broker that lies in one way. It changes messages, and forwards everything else."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import crc32c

from lacuna.judge.actors import USUAL, Chances
from lacuna.judge.client import Producer, read_batches, write_batch, zigzag
from lacuna.wire.messages import offsets as wire
from lacuna.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from lacuna.wire.messages.transactions import EndTxnResponse
from tests.clients.wire import API_KEYS
from tests.messages import REQUESTS, RESPONSES

METADATA: Final = API_KEYS["metadata"]
FIND_COORDINATOR: Final = API_KEYS["find_coordinator"]
FETCH: Final = API_KEYS["fetch"]
PRODUCE: Final = API_KEYS["produce"]
LIST_OFFSETS: Final = API_KEYS["list_offsets"]
INIT_PRODUCER_ID: Final = API_KEYS["init_producer_id"]
END_TXN: Final = API_KEYS["end_txn"]
OFFSET_FETCH: Final = API_KEYS["offset_fetch"]
TXN_OFFSET_COMMIT: Final = API_KEYS["txn_offset_commit"]
SHARE_FETCH: Final = API_KEYS["share_fetch"]
SHARE_ACKNOWLEDGE: Final = API_KEYS["share_acknowledge"]
#: The APIs whose messages are read. Others are forwarded unchanged.
_CHANGED: Final = {
    METADATA,
    FIND_COORDINATOR,
    FETCH,
    PRODUCE,
    LIST_OFFSETS,
    INIT_PRODUCER_ID,
    END_TXN,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
    SHARE_FETCH,
    SHARE_ACKNOWLEDGE,
}


class Answer(Exception):
    """The response that the proxy invents instead of passing the request on."""

    def __init__(self, response: Any) -> None:
        self.response = response


class Lie:
    """What a proxy changes: nothing in this base class. Each lie is a subclass.

    `kinds` lists the anomalies that reveal it, and `chances` make the workload do what the lie needs. A lie counts the
    messages that it forwards and is not random.
    """

    kinds: frozenset[str] = frozenset()
    chances = USUAL

    def __init__(self) -> None:
        self._turns: Counter[str] = Counter()

    def is_turn(self, every: int, key: str = "") -> bool:
        """Count an opportunity to lie, separately for each key. Return whether it is the last of each `every`."""
        self._turns[key] += 1
        return self._turns[key] % every == 0

    def request(self, key: int, request: Any) -> Any:
        """Return the request to forward. Raises Answer."""
        return request

    def response(self, key: int, request: Any, response: Any) -> Any:
        """Return the response to forward. `request` is the client's own."""
        return response


class Proxy:
    """Listens on its own port for one broker, as an asynchronous context manager."""

    def __init__(self, bootstrap: str, lie: Lie) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._broker = (host, int(port))
        self._lie = lie
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ("127.0.0.1", 0)

    async def __aenter__(self) -> str:
        """Return the proxy's address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()
        return "{}:{}".format(*self.address)

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        upstream, downstream = await asyncio.open_connection(*self._broker)
        try:
            while True:
                answer = await self._exchange(await _frame(reader), upstream, downstream)
                writer.write(struct.pack(">i", len(answer)) + answer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            downstream.close()
            writer.close()

    async def _exchange(
        self, frame: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        key, version = struct.unpack_from(">hh", frame)
        if key not in _CHANGED:
            writer.write(struct.pack(">i", len(frame)) + frame)
            return await _frame(reader)
        form, answer = REQUESTS[key], RESPONSES[key]
        start = 10 + max(struct.unpack_from(">h", frame, 8)[0], 0) + form.is_flexible(version)
        head = frame[4:8] + bytes(form.is_flexible(version))
        request = form.read(memoryview(frame)[start:], version)
        try:
            passed = frame[:start] + form.write(self._lie.request(key, request), version)
        except Answer as invented:
            return head + answer.write(invented.response, version)
        writer.write(struct.pack(">i", len(passed)) + passed)
        body = memoryview(await _frame(reader))[len(head) :]
        response = self._redirected(key, answer.read(body, version))
        return head + answer.write(self._lie.response(key, request, response), version)

    def _redirected(self, key: int, response: Any) -> Any:
        host, port = self.address[:2]
        if key == METADATA:
            brokers = [each._replace(host=host, port=port) for each in response.brokers]
            return response._replace(brokers=brokers)
        if key == FIND_COORDINATOR:
            rows = [each._replace(host=host, port=port) for each in response.coordinators]
            return response._replace(coordinators=rows)
        return response


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def _each(response: Any, change: Callable[[str, Any], Any], topics: str = "responses") -> Any:
    """Change each partition in a response; `change` gets the topic's name and the partition."""
    changed = []
    for topic in getattr(response, topics):
        name = str(getattr(topic, "topic", None) or getattr(topic, "name", ""))
        field = "partitions" if hasattr(topic, "partitions") else "partition_responses"
        rows = [change(name, each) for each in getattr(topic, field)]
        changed.append(topic._replace(**{field: rows}))
    return response._replace(**{topics: changed})


def _split(buffers: Sequence[Any] | None) -> list[bytes]:
    """Return the batches in an answer."""
    data = b"".join(buffers or ())
    batches = []
    while len(data) >= 12:
        size = 12 + struct.unpack_from(">i", data, 8)[0]
        batches.append(data[:size])
        data = data[size:]
    return batches


def _values(batch: bytes) -> list[str]:
    return [value for each in read_batches(batch) for _, value in each.records]


class _Fetched(Lie):
    """Changes the batches in Fetch responses, at one isolation level or both."""

    isolation: int | None = 1

    def response(self, key: int, request: Any, response: Any) -> Any:
        if key != FETCH:
            return response
        if self.isolation is not None and request.isolation_level != self.isolation:
            return response
        return _each(response, self._change)

    def _change(self, topic: str, each: Any) -> Any:
        return each._replace(records=self.batches(topic, each, _split(each.records)))

    def batches(self, topic: str, each: Any, batches: list[bytes]) -> list[bytes]:
        raise NotImplementedError


class ReadsUncommitted(Lie):
    """Turns every third read_committed Fetch into a read_uncommitted one."""

    kinds = frozenset({"uncommitted read", "aborted read"})

    def request(self, key: int, request: Any) -> Any:
        is_committed = key == FETCH and request.isolation_level == 1
        if is_committed and self.is_turn(3):
            return request._replace(isolation_level=0)
        return request


class LeaksAborted(_Fetched):
    """Gives read_committed readers aborted records, up to the last stable offset."""

    kinds = frozenset({"aborted read"})

    def request(self, key: int, request: Any) -> Any:
        return request._replace(isolation_level=0) if key == FETCH else request

    def _change(self, topic: str, each: Any) -> Any:
        return super()._change(topic, each)._replace(aborted_transactions=None)

    def batches(self, topic: str, each: Any, batches: list[bytes]) -> list[bytes]:
        return [
            batch
            for batch in batches
            if struct.unpack_from(">q", batch)[0] < each.last_stable_offset
        ]


def _hole(batch: bytes) -> bytes:
    """Return a control batch at the offsets of a batch, so that readers skip them."""
    base, last = struct.unpack_from(">q", batch)[0], struct.unpack_from(">i", batch, 23)[0]
    record = b"\0\0" + zigzag(last) + b"\x08\0\0\0\1" + b"\x0c" + bytes(6) + b"\0"
    inner = struct.pack(">hiqqqhii", 16 | 32, last, -1, -1, 0, 0, -1, 1)
    body = inner + zigzag(len(record)) + record
    return struct.pack(">qiibI", base, 9 + len(body), 0, 2, crc32c.crc32c(body)) + body


class DropsRecords(_Fetched):
    """Withholds batches with certain values from every reader."""

    kinds = frozenset({"lost write", "torn transaction"})
    isolation = None

    def batches(self, topic: str, each: Any, batches: list[bytes]) -> list[bytes]:
        return [
            _hole(batch) if any(value.endswith("5") for value in _values(batch)) else batch
            for batch in batches
        ]


class SkipsRecords(_Fetched):
    """Removes the batch from every second answer that contains one."""

    kinds = frozenset({"missed read"})

    def batches(self, topic: str, each: Any, batches: list[bytes]) -> list[bytes]:
        place = f"{topic}/{each.partition_index}"
        return [
            _hole(batch) if self.is_turn(2, f"{place}@{batch[:8].hex()}") else batch
            for batch in batches
        ]


class TearsTransactions(_Fetched):
    """Hides one partition of some transactions from read_committed readers forever."""

    kinds = frozenset({"torn transaction"})

    def batches(self, topic: str, each: Any, batches: list[bytes]) -> list[bytes]:
        if each.partition_index != 1:
            return batches
        return [
            _hole(batch)
            if any("writer" in value and value[-1] in "1234" for value in _values(batch))
            else batch
            for batch in batches
        ]


class DamagesBatches(_Fetched):
    """Flips a bit in some answers."""

    kinds = frozenset({"damaged batch"})

    def batches(self, topic: str, each: Any, batches: list[bytes]) -> list[bytes]:
        if batches and self.is_turn(10):
            first = bytearray(batches[0])  # the only one that an answer's size limit never cuts off
            first[-2] ^= 4
            batches[0] = bytes(first)
        return batches


class _Produced(Lie):
    """Changes the batch in Produce requests."""

    def request(self, key: int, request: Any) -> Any:
        if key != PRODUCE:
            return request
        (topic,) = request.topic_data
        (each,) = topic.partition_data
        batch = self.batch(request, f"{topic.name}/{each.index_}", bytes(each.records))
        rows = [each._replace(records=memoryview(batch))]
        return request._replace(topic_data=[topic._replace(partition_data=rows)])

    def batch(self, request: Any, place: str, batch: bytes) -> bytes:
        raise NotImplementedError


def _rewritten(batch: bytes, values: Sequence[str], *, is_idempotent: bool = True) -> bytes:
    """Return a batch with other values, and, unless `is_idempotent`, without its producer."""
    producer_id, epoch, sequence = struct.unpack_from(">qhi", batch, 43)
    is_transactional = bool(struct.unpack_from(">h", batch, 21)[0] & 16)
    who = Producer(producer_id, epoch, sequence, is_transactional)
    (timestamp,) = struct.unpack_from(">q", batch, 27)
    return write_batch(values, who if is_idempotent else Producer(-1, -1, -1, False), timestamp)


class Reorders(_Produced):
    """Writes the records of a batch in reverse order."""

    kinds = frozenset({"producer order", "misplaced"})

    def batch(self, request: Any, place: str, batch: bytes) -> bytes:
        return _rewritten(batch, _values(batch)[::-1])


class ForgetsIdempotence(_Produced):
    """Removes the producer and sequence from batches without a transaction, so that repeated ones are written again."""

    kinds = frozenset({"doubled write"})
    chances = Chances(repeated=1)

    def batch(self, request: Any, place: str, batch: bytes) -> bytes:
        if request.transactional_id is None:
            return _rewritten(batch, _values(batch), is_idempotent=False)
        return batch


class DoublesRecords(_Produced):
    """Duplicates the last record of batches without a transaction."""

    kinds = frozenset({"doubled write", "divergent offset", "misplaced"})

    def batch(self, request: Any, place: str, batch: bytes) -> bytes:
        values = _values(batch)
        is_doubled = request.transactional_id is None
        return _rewritten(batch, [*values, values[-1]]) if is_doubled else batch


class LosesTails(_Produced):
    """Writes batches without their last record."""

    kinds = frozenset({"lost write", "torn transaction", "divergent offset", "misplaced"})

    def batch(self, request: Any, place: str, batch: bytes) -> bytes:
        values = _values(batch)
        return _rewritten(batch, values[:-1]) if len(values) > 1 else batch


class _Invents(Lie):
    """Acknowledges Produce without writing, with plausible offsets."""

    def __init__(self) -> None:
        super().__init__()
        self._next: defaultdict[str, int] = defaultdict(int)

    def is_forgotten(self, request: Any) -> bool:
        raise NotImplementedError

    def request(self, key: int, request: Any) -> Any:
        if key != PRODUCE or not self.is_forgotten(request):
            return request
        (topic,) = request.topic_data
        (each,) = topic.partition_data
        row = PartitionProduceResponse(each.index_, 0, self._next[f"{topic.name}/{each.index_}"])
        raise Answer(ProduceResponse([TopicProduceResponse(topic.name, partition_responses=[row])]))

    def response(self, key: int, request: Any, response: Any) -> Any:
        if key == PRODUCE:
            for topic in response.responses:
                for each in topic.partition_responses:
                    self._next[f"{topic.name}/{each.index_}"] = each.base_offset + 1
        return response


class AcknowledgesAndForgets(_Invents):
    """Acknowledges some batches without a transaction, but does not write them."""

    kinds = frozenset({"lost write", "divergent offset", "misplaced", "real-time order"})

    def is_forgotten(self, request: Any) -> bool:
        return request.transactional_id is None and self.is_turn(3)


class TearsWrites(_Invents):
    """Acknowledges a transaction's batches to the last partition, but does not write them."""

    kinds = frozenset({"torn transaction", "lost write", "divergent offset", "real-time order"})

    def is_forgotten(self, request: Any) -> bool:
        (topic,) = request.topic_data
        (each,) = topic.partition_data
        return request.transactional_id is not None and "log" in topic.name and each.index_ == 2


class ShiftsAcknowledgements(Lie):
    """Answers Produce with the next offset."""

    kinds = frozenset({"misplaced"})

    def response(self, key: int, request: Any, response: Any) -> Any:
        if key != PRODUCE:
            return response
        return _each(response, lambda _, each: each._replace(base_offset=each.base_offset + 1))


class AbortsInstead(Lie):
    """Turns every second commit into an abort."""

    kinds = frozenset({"lost write", "lost offset"})

    def request(self, key: int, request: Any) -> Any:
        if key == END_TXN and request.committed and self.is_turn(2):
            return request._replace(committed=False)
        return request


class CommitsInstead(Lie):
    """Turns every abort into a commit."""

    kinds = frozenset({"aborted read", "aborted offset"})

    def request(self, key: int, request: Any) -> Any:
        return request._replace(committed=True) if key == END_TXN else request


class ForgetsCommits(Lie):
    """Answers every second commit of a lister without forwarding it. The next lister aborts the open transaction."""

    kinds = frozenset({"lost write", "lost offset", "late visibility"})

    def request(self, key: int, request: Any) -> Any:
        is_commit = key == END_TXN and request.committed
        if is_commit and "-list" in request.transactional_id and self.is_turn(2):
            raise Answer(EndTxnResponse(0, 0, request.producer_id, request.producer_epoch))
        return request


class ForgetsFences(Lie):
    """Gives a restarted producer the same id and epoch as the previous one, which continues."""

    kinds = frozenset({"not fenced"})
    chances = Chances(overtaken=1)

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[str, Any] = {}

    def request(self, key: int, request: Any) -> Any:
        if key == INIT_PRODUCER_ID and request.transactional_id:
            known = self._answers.get(request.transactional_id)
            if known is not None:
                raise Answer(known)
        return request

    def response(self, key: int, request: Any, response: Any) -> Any:
        if key == INIT_PRODUCER_ID and not response.error_code:
            self._answers.setdefault(request.transactional_id or "", response)
        if key == END_TXN and response.producer_id >= 0:
            known = self._answers[request.transactional_id]
            self._answers[request.transactional_id] = known._replace(
                producer_id=response.producer_id, producer_epoch=response.producer_epoch
            )
        return response


class DropsOffsets(Lie):
    """Answers TxnOffsetCommit, but commits nothing."""

    kinds = frozenset({"lost offset", "torn transaction", "G-single", "processed twice"})

    def request(self, key: int, request: Any) -> Any:
        if key != TXN_OFFSET_COMMIT:
            return request
        topics = [
            wire.TxnOffsetCommitResponseTopic(
                each.name,
                partitions=[
                    wire.TxnOffsetCommitResponsePartition(row.partition_index)
                    for row in each.partitions
                ],
            )
            for each in request.topics
        ]
        raise Answer(wire.TxnOffsetCommitResponse(topics=topics))


class OffsetsGoBack(Lie):
    """Returns a lower committed offset to each group every second time."""

    kinds = frozenset({"offset back", "lost offset"})

    def response(self, key: int, request: Any, response: Any) -> Any:
        if key != OFFSET_FETCH:
            return response
        groups = [
            _each(each, self._lowered, "topics") if self.is_turn(2, each.group_id) else each
            for each in response.groups
        ]
        return response._replace(groups=groups)

    def _lowered(self, _: str, each: Any) -> Any:
        return each._replace(committed_offset=max(each.committed_offset - 1, 0))


class _Bounds(Lie):
    """Changes the offsets in ListOffsets responses."""

    def response(self, key: int, request: Any, response: Any) -> Any:
        if key != LIST_OFFSETS or request.topics[0].partitions[0].timestamp != -1:
            return response
        level = request.isolation_level
        return _each(response, lambda name, each: self._bound(name, each, level), "topics")

    def _bound(self, name: str, each: Any, isolation: int) -> Any:
        return each._replace(
            offset=self.offset(f"{name}/{each.partition_index}", isolation, each.offset)
        )

    def offset(self, place: str, isolation: int, offset: int) -> int:
        raise NotImplementedError


class _GoesBack(_Bounds):
    """Makes every second answer for a partition lower than the previous one."""

    isolation = 1

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, int] = {}

    def offset(self, place: str, isolation: int, offset: int) -> int:
        if isolation != self.isolation:
            return offset
        if self.is_turn(2, place):
            return max(self._last[place] - 2, 0)
        self._last[place] = offset
        return offset


class StableOffsetsGoBack(_GoesBack):
    """Makes the last stable offset go back."""

    kinds = frozenset({"lso back"})


class WatermarksGoBack(_GoesBack):
    """Makes the high watermark go back."""

    kinds = frozenset({"hw back", "read past the hw", "lso past the hw"})
    isolation = 0


class StaleReads(_Bounds):
    """Answers a query for the last stable offset of lists with the previous query's answer: it lags behind, but never
    goes back.
    """

    kinds = frozenset(
        {"G-single-realtime", "G2-realtime", "read past the lso", "G-single", "lso back"}
    )

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, int] = {}

    def offset(self, place: str, isolation: int, offset: int) -> int:
        if "list" not in place or not isolation:
            return offset
        last = self._last.get(place, 0)
        self._last[place] = offset
        return last


class StableOffsetsIgnoreTransactions(Lie):
    """Returns the high watermark as the last stable offset."""

    kinds = frozenset({"lso past an open transaction"})
    chances = Chances(curious=1)

    def request(self, key: int, request: Any) -> Any:
        return request._replace(isolation_level=0) if key == LIST_OFFSETS else request


class ReleasesAccepted(Lie):
    """Releases records that a share group member accepts, so that they are delivered again."""

    kinds = frozenset({"delivered again"})

    def request(self, key: int, request: Any) -> Any:
        if key != SHARE_ACKNOWLEDGE:
            return request
        return _each(request, self._released, "topics")

    def _released(self, _: str, each: Any) -> Any:
        batches = [
            batch._replace(
                acknowledge_types=[2 if kind == 1 else kind for kind in batch.acknowledge_types]
            )
            for batch in each.acknowledgement_batches
        ]
        return each._replace(acknowledgement_batches=batches)


class SharesWithTwo(Lie):
    """Also gives a share group member the records in the other member's latest answer."""

    kinds = frozenset({"delivered twice", "delivered again"})

    def __init__(self) -> None:
        super().__init__()
        self._owner = ""
        self._last: Sequence[Any] = ()

    def response(self, key: int, request: Any, response: Any) -> Any:
        if key == SHARE_ACKNOWLEDGE:
            return _each(response, lambda _, each: each._replace(error_code=0))
        if key != SHARE_FETCH:
            return response
        mine = response.responses
        others = self._last if request.member_id != self._owner else ()
        if any(each.acquired_records for topic in mine for each in topic.partitions):
            self._owner, self._last = request.member_id, mine
        return response._replace(responses=[*mine, *others])


def _all(lie: type[Lie]) -> list[type[Lie]]:
    found = []
    for each in lie.__subclasses__():
        found += ([] if each.__name__.startswith("_") else [each]) + _all(each)
    return found


LIES: Final = _all(Lie)
