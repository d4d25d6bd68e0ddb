"""The description of one Kafka API, and the context that its handler receives.

A module in `agent/apis/` that defines `API` is served. No other file needs to be edited:

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

Messages come from lacuna.wire, which has one class for all versions. A field that a version lacks has its default in
the request and is omitted from the response. To close the connection, a handler raises MalformedRequest. A handler that
must wait before a step whose order matters first adds itself to `call.peer.arrival_order` (agent/arrival_order.py).
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

#: The `advertised` of an API that the answer to ApiVersions does not name.
NOT_ADVERTISED: Final = (0, -1)


class MalformedRequest(Exception):
    """A request's body does not match its schema. The connection is closed, as in Kafka."""


class Call(NamedTuple):
    """The context of a request: the agent, the client that sent it, and its version."""

    context: AgentContext
    peer: Peer
    version: int

    def command(self, **verb: Any) -> Command:
        """Return a command that names the client's principal, for state that clients leave in the control plane."""
        principal = self.peer.session.principal
        return Command(principal="" if principal == ANONYMOUS else str(principal), **verb)


class Pieces(NamedTuple):
    """How a request is cut into pieces (agent/pieces.py) of at most `most` elements each.

    `asked` names the array that may be cut and the arrays inside its elements. `answered` names the corresponding
    arrays of the answer, which have the same number of elements. Each element is answered independently.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    most: int = MOST_OF_PIECE


class AnyApi(Protocol):
    """An API, whatever its messages are."""

    @property
    def handle(self) -> Callable[..., Awaitable[Any]]: ...

    def refuse(self, call: Call, request: Any, error_code: int, /) -> Any: ...


#: Answers a request of an API, which the guard may change, leave to `api.handle`, or not.
Guard: TypeAlias = Callable[[Rights, AnyApi, Call, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api(Generic[Q, R]):
    """One served API: its messages, versions and handler.

    - `handle` gives the answer, or None if the client does not wait for one. If requests do not name all that they
      concern, the guard gives it what the client may do as a third argument.
    - `refusal` gives an answer that is one error: the control plane cannot be reached (`unavailable`), or our own code
      failed (UNKNOWN_SERVER_ERROR). Without it, the answer has the error code and nothing else.
    - `guard` stands before the handler if ACLs decide (agent/guards/). None: no right is needed. It has no default, so
      that no API is open by mistake.
    - `until`: the last version that is served, if it is not the last of Kafka's definitions.
    - `advertised`: the first and the last version in the answer to ApiVersions, if they are not all that are served.
    - `quota`: the quota that a request uses. REQUESTS is the time that it takes, which all requests use that use any.
      Beside it, PRODUCED counts the bytes of the request, and CONSUMED those of the answer. None: it uses none.
    - `mutation`: how the API changes topics, which a quota of its own counts (KIP-599).
    - `pipelined`: later requests of that API on the same connection start before this one is answered. They start in
      the order of their frames, so what handlers do before they first wait happens in that order. Answers always leave
      in the order of the requests. Requests of all other APIs run one at a time on a connection.
    - `waits`: the answer may take long, since it waits for others (records, members). When the client has left, such a
      wait is cancelled. All its other requests are still served, as in Kafka: many clients send a LeaveGroup and leave.
    - `moved`: what a client is told once its requests of this kind go to another agent, because this one is about to
      stop; NONE if it answers them all the same.
    - `pieces`: how requests with many elements are cut; the first that fits a request counts.
    - `most_whole`: how many elements a request has at most, if it is not cut; with more, the connection is closed.
    - `heartbeat_ms`: how often members send this request, unless an answer to it says otherwise.
    - `notes` tells readers of docs/protocol.md how the API behaves here, in one line of Markdown.
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
        """The API key."""
        return self.request.api_key

    @property
    def name(self) -> str:
        """The name that Kafka gives the API, for example "InitProducerId"."""
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
        """The most elements that the arrays of a request may have."""
        return MOST_ELEMENTS if self.pieces else self.most_whole

    def refuse(self, call: Call, request: Q, error_code: int) -> R:
        """Return an answer that is one error. Raises MalformedRequest if the client expects no answer."""
        if self.refusal is not None:
            return self.refusal(call, request, error_code)
        make: Any = self.response.body.make
        no_message = {"error_message": None} if "error_message" in make._fields else {}
        refused: R = make(error_code=error_code, **no_message)
        return refused

    def read(self, body: memoryview, version: int) -> Q:
        """Read the request in `body`. Raises MalformedRequest."""
        try:
            return self.request.read(body, version, self.most_elements)
        except MalformedMessage as error:
            raise MalformedRequest(f"API {self.key} version {version}: {error}") from error

    def write(self, response: R, version: int) -> Sequence[Buffer]:
        """Return the body of an answer as buffers."""
        return self.response.buffers(response, version)
