"""Which Kafka APIs are served, and how a file of this folder registers one.

A module in `agent/apis/` that has a name `API` (an `Api`) is served; nothing else is to be edited:

    \"\"\"EndTxn v0-v5. <behaviour, KIPs>\"\"\"

    async def handle(context: AgentContext, request: Any, peer: Peer) -> Any:
        reply = await context.control.call(Command(end_txn=...))
        return build(request, "EndTxnResponse", error_code=reply.txn_ended.error_code, ...)

    def refuse(request: Any, error_code: int) -> Any:
        return build(request, "EndTxnResponse", error_code=error_code)

    API = Api(key=26, min_version=0, max_version=5, handle=handle, refuse=refuse)

- `handle` gets kio's request of the version that was sent (`version_of(request)`) and returns kio's
  response of the same version, most easily by `build` (agent/apis/schema.py), which leaves out what
  the version lacks. None means that the client does not wait for an answer.
- `refuse` says how the answer looks when all of it is one error: the control plane is away
  (`unavailable`) or our own code failed (UNKNOWN_SERVER_ERROR). Without it the connection closes.
- A hot API gives its own `decode(body, version)` and `encode(response, version)`: a list of buffers
  that are written as they are, without the response header and without a copy.
- `pipelined`: later requests of that API on the same connection start before this one is answered.
  They start in the order of their frames, and what a handler does before it first waits is done in
  that order. Answers leave in the order of the requests always. Everything else runs one request
  at a time on a connection.

- `peer.turns`: where a pipelined handler must wait before it may do what has an order, it takes its turn at its
  beginning (agent/turns.py).

- `waits`: an answer may be long in coming, since it waits for others (records, members). Once the client is gone such
  a wait ends; everything else that was read of it is served, as Kafka does: a LeaveGroup is the last thing that
  many clients say.

- A handler closes the connection by raising MalformedRequest.

What is advertised is what Kafka 4.1 advertises, and the versions before it that old clients send, cut down
to what is served. An API that Kafka does not advertise is served in silence.
"""

import pkgutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from agent.apis.nulls import UnexpectedNullError, reject_nulls
from agent.apis.schema import kio_versions, request_class
from agent.turns import Turns
from agent.wire import Buffer, MalformedRequest
from controlplane.errors import ErrorCode

if TYPE_CHECKING:
    from agent.context import AgentContext

Handle: TypeAlias = "Callable[[AgentContext, Any, Peer], Awaitable[Any]]"
Refuse: TypeAlias = Callable[[Any, int], Any]
Decode: TypeAlias = Callable[[memoryview, int], Any]
Encode: TypeAlias = Callable[[Any, int], Sequence[Buffer]]

API_VERSIONS_KEY = 18

# What Apache Kafka 4.1.0 answers to ApiVersions, of the APIs that an agent may serve one day.
# tests/golden/api_versions_kafka_4_1.json holds the capture, and a test this table against it.
# Kafka serves 71 and 72 too (KIP-714) and names them where a plugin takes the metrics only: so here (adr/0017).
KAFKA_4_1: Mapping[int, tuple[int, int]] = MappingProxyType(
    {
        0: (0, 13),
        1: (4, 18),
        2: (1, 10),
        3: (0, 13),
        8: (2, 9),
        9: (1, 9),
        10: (0, 6),
        11: (0, 9),
        12: (0, 4),
        13: (0, 5),
        14: (0, 5),
        15: (0, 6),
        16: (0, 5),
        17: (0, 1),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        21: (0, 2),
        22: (0, 5),
        23: (2, 4),
        24: (0, 5),
        25: (0, 4),
        26: (0, 5),
        27: (1, 1),
        28: (0, 5),
        29: (1, 3),
        30: (1, 3),
        31: (1, 3),
        32: (1, 4),
        33: (0, 2),
        34: (1, 2),
        35: (1, 4),
        36: (0, 2),
        37: (0, 3),
        38: (1, 3),
        39: (1, 2),
        40: (1, 2),
        41: (1, 3),
        42: (0, 2),
        43: (0, 2),
        44: (0, 1),
        45: (0, 1),
        46: (0, 0),
        47: (0, 0),
        48: (0, 1),
        49: (0, 1),
        50: (0, 0),
        51: (0, 0),
        55: (0, 2),
        57: (0, 2),
        60: (0, 2),
        61: (0, 0),
        64: (0, 0),
        65: (0, 0),
        66: (0, 2),
        68: (0, 1),
        69: (0, 1),
        74: (0, 1),
        75: (0, 0),
    }
)
# Where 4.0 took versions away (KIP-896) that its predecessors answered, and that old clients still send:
# advertised from here on where they are served.
BEFORE_KAFKA_4: Mapping[int, int] = MappingProxyType(
    {1: 0, 2: 0, 8: 0, 9: 0, 19: 0, 20: 0, 23: 0, 32: 0, 35: 0}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Who sent a request. `client_id` is that of the request's header, "" where it was null.

    `turns` are those of its connection.
    """

    host: str
    port: int
    client_id: str = ""
    turns: Turns = field(default_factory=Turns, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API as served; see the module's text. Versions are inclusive.

    `notes`: what a reader of docs/protocol.md must know of how it behaves here, in Markdown on one line.
    """

    key: int
    min_version: int
    max_version: int
    handle: Handle
    refuse: Refuse | None = None
    decode: Decode | None = None
    encode: Encode | None = None
    pipelined: bool = False
    waits: bool = False
    notes: str = ""
    unavailable: int = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def read(self, body: memoryview, version: int) -> Any:
        """The request in `body`, a read-only buffer. Raises MalformedRequest."""
        if self.decode is not None:
            return self.decode(body, version)
        return read_kio(self.key, version, body)

    def write(self, response: Any, version: int) -> Sequence[Buffer]:
        """The body of an answer."""
        if self.encode is not None:
            return self.encode(response, version)
        buffer = BytesIO()
        entity_writer(type(response))(buffer, response)
        return (buffer.getvalue(),)


class Registry:
    """The served APIs. Two may share a key where their versions do not."""

    __slots__ = ("_advertised", "_apis")

    def __init__(self, apis: Iterable[Api]) -> None:
        """Raises ValueError where two APIs have a version of a key in common."""
        self._apis: dict[tuple[int, int], Api] = {}
        ranges: dict[int, tuple[int, int]] = {}
        for api in apis:
            for version in range(api.min_version, api.max_version + 1):
                if (api.key, version) in self._apis:
                    raise ValueError(f"API {api.key} version {version} is registered twice")
                self._apis[api.key, version] = api
            low, high = ranges.get(api.key, (api.min_version, api.max_version))
            ranges[api.key] = min(low, api.min_version), max(high, api.max_version)
        self._advertised = _as_kafka_advertises(ranges)

    def get(self, api_key: int, version: int) -> Api | None:
        """The API that serves a version, None where none does. ApiVersions serves every version."""
        api = self._apis.get((api_key, version))
        if api is None and api_key == API_VERSIONS_KEY:
            return self._apis.get((api_key, 0))
        return api

    def apis(self) -> Iterable[Api]:
        """All served APIs."""
        return dict.fromkeys(self._apis.values())

    def advertised(self) -> Mapping[int, tuple[int, int]]:
        """Key to (minimum, maximum), ordered by key, as ApiVersions says it."""
        return self._advertised

    def takes(self, api_key: int, version: int) -> bool:
        """True where a request may be answered; others close the connection, as in Kafka."""
        return self.get(api_key, version) is not None


def _as_kafka_advertises(served: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Kafka 4.1's ranges, with the old versions that 4.0 gave up, cut down to what is served."""
    advertised = {}
    for key in sorted(served.keys() & KAFKA_4_1.keys()):
        low = max(served[key][0], BEFORE_KAFKA_4.get(key, KAFKA_4_1[key][0]))
        high = min(served[key][1], KAFKA_4_1[key][1])
        if low <= high:
            advertised[key] = (low, high)
    return advertised


def discover() -> Registry:
    """A registry of every module in this folder that has an `API`."""
    from agent import apis

    found = []
    for module_info in sorted(pkgutil.iter_modules(apis.__path__), key=lambda info: info.name):
        api = getattr(import_module(f"{apis.__name__}.{module_info.name}"), "API", None)
        if isinstance(api, Api):
            found.append(api)
    return Registry(found)


def read_kio(api_key: int, version: int, body: memoryview) -> Any:
    """kio's request. Raises MalformedRequest."""
    from agent.apis.counts import check_counts

    check_counts(request_class(api_key, version), body)
    try:
        try:
            request = kio_reader(api_key, version)(body, 0)[0]
        except KeyError:  # a tagged field that kio does not know
            from agent.apis.lenient import read_lenient

            request = read_lenient(request_class(api_key, version), body, 0)[0]
        reject_nulls(request)
    except (SerialError, UnexpectedNullError, ValueError, OverflowError) as error:
        raise MalformedRequest(
            f"API {api_key} version {version}: {type(error).__name__}: {error}"
        ) from error
    return request


@lru_cache(maxsize=1024)
def kio_reader(api_key: int, version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
    """kio's reader of a request. Raises KeyError for a version that kio lacks."""
    reader: Callable[[memoryview, int], tuple[Any, int]] = entity_reader(
        request_class(api_key, version)
    )
    return reader


@lru_cache(maxsize=1024)
def request_header_version(api_key: int, version: int) -> int:
    """1, or 2 where the header ends in tagged fields. Of versions that kio lacks: its nearest."""
    versions = kio_versions(api_key)
    nearest = min(max(version, versions[0]), versions[-1])
    return 2 if request_class(api_key, nearest).__flexible__ else 1


def response_header_version(api_key: int, version: int) -> int:
    """0, or 1 where tagged fields follow. ApiVersions: always 0, for any client (KIP-511)."""
    if api_key == API_VERSIONS_KEY:
        return 0
    return request_header_version(api_key, version) - 1
