"""A raw Kafka client in which each request is one observation: nothing is retried, cached or filtered without the
judge's knowledge.

It has its own code for record batches. If it used the code with which Lacuna stores them, a bug in that code would
affect both sides and go unnoticed (ADR 79).
"""

import asyncio
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Generic, TypeVar

import cramjam
import crc32c

from lacuna.base.addresses import KAFKA_PORT, parse_addresses
from lacuna.base.client_security import ClientSecurity
from lacuna.base.errors import UserError
from lacuna.base.sasl import SaslError
from lacuna.wire.client import ClientFrames, NoAnswerError, authenticate
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.layout import Message
from lacuna.wire.messages import topics as wire
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

Q = TypeVar("Q")
R = TypeVar("R")

CLIENT_ID: Final = b"lacuna-judge"
GROUP: Final = 0
TRANSACTION: Final = 1
_MOST_BYTES: Final = 64 << 20
#: Errors from a partition or coordinator that is moving, loading or waiting. The request had no effect and is repeated.
RETRIED: Final = frozenset({3, 5, 6, 9, 14, 15, 16, 51, 56, 72, 74, 75, 76, 78, 88, 89})
#: Errors after which the request may have had an effect.
VAGUE: Final = frozenset({-1, 7, 13, 19, 20})
#: A newer producer has taken over.
FENCED: Final = frozenset({47, 90})
CODECS: Final = {
    1: cramjam.gzip.decompress,
    2: cramjam.snappy.decompress_raw,
    3: cramjam.lz4.decompress,
    4: cramjam.zstd.decompress,
}

# base offset, length, leader epoch, magic, CRC | attributes, last offset delta, base and max timestamp, producer id and
# epoch, base sequence, count
_OUTER: Final = Struct(">qiibI")
_INNER: Final = Struct(">hiqqqhii")
_HEAD: Final = _OUTER.size + _INNER.size
_TRANSACTIONAL: Final = 1 << 4
_CONTROL: Final = 1 << 5
_CODEC: Final = 7


class Lost(Exception):
    """No response arrived. Unless `is_unsent`, the request may have taken effect."""

    def __init__(self, why: str, *, is_unsent: bool = False) -> None:
        super().__init__(why)
        self.is_unsent = is_unsent


class Refused(Exception):
    """The broker responded with an error code."""

    def __init__(self, code: int, api_key: int) -> None:
        super().__init__(f"API {api_key} returned error {code}")
        self.code = code


class DamagedBatch(Exception):
    """The bytes are not a complete record batch, or its checksum is wrong."""


@dataclass(frozen=True, slots=True)
class Api(Generic[Q, R]):
    """An API's messages, and the highest version that the judge uses."""

    request: Message[Q]
    response: Message[R]
    version: int


#: The highest versions that identify topics by name.
_METADATA: Final = Api(wire.METADATA_REQUEST, wire.METADATA_RESPONSE, 12)
_COORDINATOR: Final = Api(FIND_COORDINATOR_REQUEST, FIND_COORDINATOR_RESPONSE, 4)


@dataclass(frozen=True, slots=True)
class Batch:
    base_offset: int
    next_offset: int
    producer_id: int
    is_transactional: bool
    #: 0 for an abort, 1 for a commit, -1 if the batch is not a control batch.
    control: int
    records: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer id, epoch and first sequence in a batch."""

    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool


def zigzag(number: int) -> bytes:
    """Return the zigzag varint of a non-negative number."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def write_batch(values: Sequence[str], producer: Producer, timestamp_ms: int) -> bytes:
    """Return an uncompressed batch of records without keys."""
    records = bytearray()
    for delta, value in enumerate(values):
        text = value.encode()
        # Attributes and timestamp delta are 0, the key is null (-1), and there are no headers.
        record = b"\0\0" + zigzag(delta) + b"\1" + zigzag(len(text)) + text + b"\0"
        records += zigzag(len(record)) + record
    inner = _INNER.pack(
        _TRANSACTIONAL if producer.is_transactional else 0,
        len(values) - 1,
        timestamp_ms,
        timestamp_ms,
        producer.producer_id,
        producer.epoch,
        producer.sequence,
        len(values),
    )
    body = inner + records
    length = _OUTER.size - 12 + len(body)
    return _OUTER.pack(0, length, -1, 2, crc32c.crc32c(body)) + body


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = view[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7


def read_batches(buffer: bytes) -> Iterator[Batch]:
    """Yield the complete batches in a response. Raises DamagedBatch."""
    view = memoryview(buffer)
    while len(view) >= _HEAD:
        base, length, _, magic, crc = _OUTER.unpack_from(view)
        if length + 12 > len(view):
            return  # cut off at the answer's limit
        batch, view = view[: length + 12], view[length + 12 :]
        if magic != 2 or crc32c.crc32c(batch[_OUTER.size :]) != crc:
            raise DamagedBatch(f"the batch at offset {base} has a wrong checksum or format")
        attributes, last, _, _, producer_id, _, _, count = _INNER.unpack_from(batch, _OUTER.size)
        records = batch[_HEAD:]
        if codec := attributes & _CODEC:
            records = memoryview(bytes(CODECS[codec](bytes(records))))
        rows = _records(records, base, count)
        control = -1
        if attributes & _CONTROL:
            control = rows[0][1][3]  # key: version (int16), type (int16)
        yield Batch(
            base,
            base + last + 1,
            producer_id,
            bool(attributes & _TRANSACTIONAL),
            control,
            [] if attributes & _CONTROL else [(offset, text.decode()) for offset, _, text in rows],
        )


def _records(view: memoryview, base: int, count: int) -> list[tuple[int, bytes, bytes]]:
    rows = []
    position = 0
    try:
        for _ in range(count):
            size, position = _varint(view, position)
            end = position + size
            _, position = _varint(view, position + 1)
            delta, position = _varint(view, position)
            texts = []
            for _ in range(2):
                length, position = _varint(view, position)
                texts.append(bytes(view[position : position + max(length, 0)]))
                position += max(length, 0)
            rows.append((base + delta, texts[0], texts[1]))
            position = end
    except IndexError as error:
        raise DamagedBatch(f"the batch at offset {base} ends within a record") from error
    return rows


@dataclass(frozen=True, slots=True)
class Brokers:
    """A cluster's bootstrap addresses, the security settings of its connections, and the timeout for responses."""

    addresses: str
    security: ClientSecurity
    timeout_seconds: float = 10.0


class _Link:
    """A connection to one broker, which carries one request at a time."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._turn = asyncio.Lock()
        self.versions: Mapping[int, tuple[int, int]] = {}
        self.features: Mapping[str, int] = {}
        self.is_open = False

    async def open(self, host: str, port: int) -> None:
        """Connect, authenticate, and request the broker's API versions. Raises Lost and UserError."""
        security = self._brokers.security
        context = security.context
        self._frames = ClientFrames(CLIENT_ID)
        try:
            async with asyncio.timeout(self._brokers.timeout_seconds):
                self._reader, self._writer = await asyncio.open_connection(
                    host, port, ssl=context, server_hostname=None if context is None else host
                )
        except ssl.SSLError as error:
            raise UserError(f"{host}:{port}: TLS failed: {error}") from error
        except (OSError, TimeoutError) as error:
            raise Lost(f"{host}:{port} does not answer: {error}", is_unsent=True) from error
        self.is_open = True
        try:
            if security.has_sasl:
                if security.credentials is None:
                    raise SaslError("set sasl.mechanism, a user and a password")
                await authenticate(self.ask, security.credentials)
        except SaslError as error:
            self.close()
            raise UserError(f"{host}:{port}: SASL failed: {error}") from error
        answer = await self.ask(
            API_VERSIONS_REQUEST, API_VERSIONS_RESPONSE, 3, ApiVersionsRequest("lacuna-judge", "1")
        )
        self.versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }
        self.features = {each.name: each.max_version_level for each in answer.finalized_features}

    async def ask(self, form: Message[Q], answer: Message[R], version: int, request: Q) -> R:
        async with self._turn:
            if not self.is_open:
                raise Lost("the connection has ended", is_unsent=True)
            try:
                async with asyncio.timeout(self._brokers.timeout_seconds):
                    self._writer.write(self._frames.request(form, version, request, _MOST_BYTES))
                    await self._writer.drain()
                    return answer.read(await self._body(), version)
            except (
                OSError,
                TimeoutError,
                asyncio.IncompleteReadError,
                NoAnswerError,
                MalformedMessage,
            ) as error:
                self.close()
                raise Lost(f"no answer: {type(error).__name__} {error}") from error
            except asyncio.CancelledError:
                self.close()
                raise

    async def _body(self) -> memoryview:
        while True:
            body = self._frames.take(await self._reader.readexactly(self._frames.missing))
            if body is not None:
                return body

    async def send_and_leave(self, form: Message[Q], version: int, request: Q) -> None:
        async with self._turn:
            if self.is_open:
                self._writer.write(self._frames.request(form, version, request, _MOST_BYTES))
                await self._writer.drain()
                self.close()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._writer.close()


def error_codes(answer: Any) -> Iterator[int]:
    """Yield the error codes in a response, at every level of nesting."""
    for name, value in zip(answer._fields, answer, strict=True):
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, Sequence):
            for each in value:
                if hasattr(each, "_fields"):
                    yield from error_codes(each)


class Client:
    """One actor's connections, and the leaders and coordinators that it has looked up."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._links: dict[int, _Link] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._leaders: dict[str, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self.topic_ids: dict[str, bytes] = {}

    def close(self) -> None:
        for link in self._links.values():
            link.close()

    async def link(self, node: int = -1) -> _Link:
        """Return an open connection to a node or, for -1, to any bootstrap address. Raises Lost and UserError."""
        link = self._links.get(node)
        if link is not None and link.is_open:
            return link
        places = [self._addresses[node]] if node in self._addresses else []
        why: Lost | None = None
        for host, port in places or parse_addresses(self._brokers.addresses, KAFKA_PORT):
            link = _Link(self._brokers)
            try:
                await link.open(host, port)
            except Lost as error:
                why = Lost(str(error), is_unsent=True)
                continue
            self._links[node] = link
            return link
        assert why is not None
        raise why

    async def ask(self, node: int, api: Api[Q, R], request: Q) -> R:
        """Send a request to a node, in the highest version that both sides support. Raises Lost and UserError."""
        link = await self.link(node)
        return await link.ask(api.request, api.response, self._version(link, api), request)

    async def done(self, node: int, api: Api[Q, R], request: Q) -> R:
        """Like `ask`, but raise Refused if there is an error code anywhere in the response."""
        answer = await self.ask(node, api, request)
        for code in filter(None, error_codes(answer)):
            raise Refused(code, api.request.api_key)
        return answer

    async def abandon(self, node: int, api: Api[Q, R], request: Q) -> None:
        """Send a request, and close the connection without reading the response. Raises Lost and UserError."""
        link = await self.link(node)
        await link.send_and_leave(api.request, self._version(link, api), request)

    def _version(self, link: _Link, api: Api[Q, R]) -> int:
        form = api.request
        first, last = link.versions.get(form.api_key, (0, -1))
        version = min(last, api.version, form.versions[1])
        if version < max(first, form.versions[0]):
            raise UserError(
                f"the broker supports versions {first} to {last} of API {form.api_key}, but "
                f"version {api.version} is needed"
            )
        return version

    async def metadata(self, topics: Sequence[str]) -> wire.MetadataResponse:
        """Request the metadata of topics, and remember their leaders and the brokers' addresses."""
        request = wire.MetadataRequest(
            [wire.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        answer = await self.ask(-1, _METADATA, request)
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            self.topic_ids[topic.name or ""] = topic.topic_id
            for each in topic.partitions:
                place = f"{topic.name}/{each.partition_index}"
                if each.leader_id >= 0:
                    self._leaders[place] = each.leader_id
                else:
                    self._leaders.pop(place, None)
        return answer

    async def leader(self, place: str) -> int:
        """Return the leader of a place. Raises Lost if there is none."""
        if place not in self._leaders:
            await self.metadata([place.rpartition("/")[0]])
        if place not in self._leaders:
            raise Lost(f"{place} has no leader", is_unsent=True)
        return self._leaders[place]

    async def coordinator(self, kind: int, key: str) -> int:
        """Return the coordinator of a group or a transactional id. Raises Lost if there is none."""
        node = self._coordinators.get((kind, key))
        if node is not None:
            return node
        link = await self.link()
        many = self._version(link, _COORDINATOR) >= _COORDINATOR.version
        request = FindCoordinatorRequest("" if many else key, kind, [key] if many else [])
        answer = await self.ask(-1, _COORDINATOR, request)
        each = answer.coordinators[0] if many else answer
        if each.error_code:
            raise Lost(f"{key} has no coordinator: error {each.error_code}", is_unsent=True)
        self._addresses[each.node_id] = (each.host, each.port)
        self._coordinators[kind, key] = each.node_id
        return each.node_id

    def forget(self) -> None:
        """Forget leaders and coordinators, so that they are looked up again."""
        self._leaders.clear()
        self._coordinators.clear()
