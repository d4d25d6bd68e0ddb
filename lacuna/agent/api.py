"""The description of one Kafka API, and the context that its handler receives.

Every module in `agent/apis/` that defines `API` adds a served API. No other file needs to be edited:

    \"\"\"EndTxn v0-v5. <behaviour, KIPs>\"\"\"

    async def handle(call: Call, request: EndTxnRequest) -> EndTxnResponse:
        reply = await call.context.control.call(Command(end_txn=...))
        return EndTxnResponse(error_code=reply.txn_ended.error_code, ...)

    API = Api(
        request=END_TXN_REQUEST,
        response=END_TXN_RESPONSE,
        handle=handle,
        guard=guard,
    )

Messages come from lacuna.wire, which has one class for all versions of a message. If a version lacks a field, the field
has its default value in the request and is omitted from the response. To close the connection, a handler raises
MalformedRequest. A handler that waits before an order-sensitive step first adds itself to
`call.peer.arrival_order` (agent/arrival_order.py).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from lacuna.agent.client import Peer
from lacuna.agent.context import AgentContext
from lacuna.agent.limits import MOST_OF_PIECE, MOST_WHOLE
from lacuna.agent.quotas.limits import REQUESTS
from lacuna.agent.quotas.mutation import Mutation
from lacuna.agent.rights import Rights
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.principal import ANONYMOUS
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.kernel import MOST_ELEMENTS
from lacuna.wire.layout import Buffer, Message

Q = TypeVar("Q")
R = TypeVar("R")

#: The value of `advertised` for an API that the answer to ApiVersions omits.
NOT_ADVERTISED: Final = (0, -1)


class MalformedRequest(Exception):
    """A request's body does not match its schema. The connection is closed, as in Kafka."""


class Call(NamedTuple):
    """The context of a request: the agent that serves it, the client that sent it, and its version."""

    context: AgentContext
    peer: Peer
    version: int

    def command(self, **verb: Any) -> Command:
        """Return a command that names the client's principal as the owner of any state created by the command."""
        principal = self.peer.session.principal
        return Command(principal="" if principal == ANONYMOUS else str(principal), **verb)


class Pieces(NamedTuple):
    """How a request is cut into pieces of at most `most` elements each (agent/pieces.py).

    `asked` names the array to cut and the arrays nested in its elements; `answered` names the corresponding arrays of
    the answer, which have the same lengths. The answers for different elements must not depend on each other.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    most: int = MOST_OF_PIECE


class AnyApi(Protocol):
    """An API with any request and response messages."""

    @property
    def handle(self) -> Callable[..., Awaitable[Any]]: ...

    def refuse(self, call: Call, request: Any, error_code: int, /) -> Any: ...


#: Answers a request to an API. The guard may change the request, pass it to `api.handle`, or answer it itself.
Guard: TypeAlias = Callable[[Rights, AnyApi, Call, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Generic[Q, R]):
    """A served API: its messages, versions and handler.

    - `handle` returns the answer, or None if the client expects none. If a request does not name every resource that it
      concerns, the guard passes the client's permission to `handle` as a third argument.
    - `refusal` builds an answer that reports one error: `unavailable` if the control plane cannot be reached, or
      UNKNOWN_SERVER_ERROR if our own code has failed. By default, the answer contains only the error code.
    - `guard` runs before the handler if an authorizer is configured (agent/guards/). None means that clients need no
      rights. There is no default, so that no API is left open by mistake.
    - `until`: the last version served, if it is not the last in Kafka's definitions.
    - `advertised`: the first and the last version in the answer to ApiVersions, if these differ from the served
      versions.
    - `quota`: the quota that a request uses. REQUESTS counts the time that the request takes, as does every other
      quota; in addition, PRODUCED counts the bytes of the request, and CONSUMED those of the answer.
    - `mutation`: how the API changes topics. A separate quota counts these changes (KIP-599).
    - `pipelined`: later requests to the same API on a connection start before this one is answered. Handlers start in
      the order of the frames, so whatever they do before their first wait happens in that order. Answers are always
      sent in the order of the requests. Requests to all other APIs run one at a time on a connection.
    - `waits`: the answer may wait a long time for new records or for other group members. When the client disconnects,
      the wait is cancelled. All other requests from that client are still served, as in Kafka, because many clients
      send a LeaveGroup and disconnect immediately.
    - `moved`: the error code that sends the client to another agent when this agent is about to stop. With NONE, this
      agent continues to answer such requests.
    - `pieces`: how requests with many elements are cut. The first entry that applies to a request is used.
    - `most_whole`: the maximum number of elements in a request that is not cut; beyond it, the connection is closed.
    - `heartbeat_ms`: how often group members send this request, unless an answer to it specifies another interval.
    - `notes`: how the API behaves in Lacuna, in one line of Markdown for docs/protocol.md.
    """

    request: Message[Q]
    response: Message[R]
    handle: Callable[[Call, Q], Awaitable[R | None]]
    guard: Guard | None
    refusal: Callable[[Call, Q, int], R] | None = None
    until: int | None = None
    advertised: tuple[int, int] | None = None
    quota: str | None = REQUESTS
    mutation: Mutation | None = None
    pipelined: bool = False
    waits: bool = False
    notes: str = ""
    unavailable: int = ErrorCode.COORDINATOR_NOT_AVAILABLE
    moved: int = ErrorCode.NONE
    heartbeat_ms: int = 0
    pieces: tuple[Pieces, ...] = ()
    most_whole: int = MOST_WHOLE

    @property
    def key(self) -> int:
        return self.request.api_key

    @property
    def name(self) -> str:
        """Kafka's name for the API, such as "InitProducerId"."""
        name: str = self.request.body.make.__name__
        return name.removesuffix("Request")

    @property
    def min_version(self) -> int:
        """The first version in Kafka's definitions."""
        return self.request.versions[0]

    @property
    def max_version(self) -> int:
        """The last version that is served."""
        return self.request.versions[1] if self.until is None else self.until

    @property
    def most_elements(self) -> int:
        """The maximum number of elements in the arrays of a request."""
        return MOST_ELEMENTS if self.pieces else self.most_whole

    def refuse(self, call: Call, request: Q, error_code: int) -> R:
        if self.refusal is not None:
            return self.refusal(call, request, error_code)
        make: Any = self.response.body.make
        no_message = {"error_message": None} if "error_message" in make._fields else {}
        refused: R = make(error_code=error_code, **no_message)
        return refused

    def read(self, body: memoryview, version: int) -> Q:
        try:
            return self.request.read(body, version, self.most_elements)
        except MalformedMessage as error:
            raise MalformedRequest(f"API {self.key} version {version}: {error}") from error

    def write(self, response: R, version: int) -> Sequence[Buffer]:
        return self.response.buffers(response, version)
