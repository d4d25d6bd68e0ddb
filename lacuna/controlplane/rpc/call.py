"""One gRPC call: messages in both directions, and how it ended."""

import asyncio
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote, unquote

from lacuna.controlplane.rpc.frames import DEFAULT_WINDOW, Code, FrameError

Headers: TypeAlias = Sequence[tuple[str, str]]

#: How many bytes a peer may send on a stream before they are read.
WINDOW: Final = 4 << 20
#: Before each message: whether it is compressed, and its size.
_PREFIX: Final = Struct(">BI")


class Status(IntEnum):
    """gRPC's status codes that are used here."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class CallError(Exception):
    """A call ended with another status than OK, or broke. The message says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Carrier(Protocol):
    """What a call needs of its connection."""

    def send_headers(self, call: "Call", headers: Headers, *, ends: bool = False) -> None:
        """Send headers or trailers."""

    async def send_data(self, call: "Call", data: bytes) -> None:
        """Send bytes once the peer takes them. Raises CallError if the call breaks."""

    def send_end(self, call: "Call") -> None:
        """Say that this end sends no more messages."""

    def give_window(self, stream: int, increment: int) -> None:
        """Let the peer send so many more bytes."""

    def reset(self, call: "Call", code: Code) -> None:
        """End the stream at once."""


class Call:
    """A call on a connection, at either end.

    One task reads and one writes. A peer that sends faster than `read` is called is slowed down by flow control.
    """

    def __init__(self, link: Carrier, stream: int, max_message: int) -> None:
        self._link = link
        self._max_message = max_message
        self._partial = bytearray()
        self._messages: deque[bytes] = deque()
        self._arrived: asyncio.Future[None] | None = None
        #: How many bytes make the next message complete, or its size known.
        self._needed = _PREFIX.size
        #: Bytes that have come and for which the peer was given no new window; of them, those of complete messages.
        self._uncredited = 0
        self._queued = 0
        self._is_over = False
        self._error: CallError | None = None
        self.stream = stream
        #: How many bytes the peer takes until it sends a WINDOW_UPDATE.
        self.window = DEFAULT_WINDOW
        #: Whether this end has said that it sends no more.
        self.has_ended = False
        #: The subject of the peer's certificate, "" without one.
        self.peer = ""
        #: Its address, without the port; "" on a Unix socket.
        self.host = ""

    async def read(self) -> bytes | None:
        """Return the next message, or None once the peer has sent its last one. Raises CallError."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self._is_over:
                return None
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        message = self._messages.popleft()
        self._queued -= len(message) + _PREFIX.size
        self._credit()
        return message

    async def read_one(self) -> bytes:
        """Return the only message that the peer sends. Raises CallError."""
        message = await self.read()
        if message is None:
            raise CallError(Status.INTERNAL, "the peer has sent no message")
        return message

    async def write(self, message: bytes) -> None:
        """Send a message, once the peer and the connection take it. Raises CallError."""
        if self._error is not None or self.has_ended:
            raise self._error or CallError(Status.INTERNAL, "this end of the call has ended")
        await self._link.send_data(self, _PREFIX.pack(0, len(message)) + message)

    def answer(self) -> None:
        """Send the headers of the answer, as a server, before its first message."""
        self._link.send_headers(self, [(":status", "200"), ("content-type", "application/grpc")])

    def end(self) -> None:
        """Say that no more messages follow, as a client."""
        if self._error is None:
            self._link.send_end(self)

    def finish(self, status: int, message: str) -> None:
        """End the call, as its server."""
        trailers = [("grpc-status", str(int(status)))]
        if message:
            trailers.append(
                ("grpc-message", quote(message, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"))
            )
        self._link.send_headers(self, trailers, ends=True)

    def cancel(self, code: Code = Code.CANCEL, why: str = "the call was cancelled") -> None:
        """End the call at once, in both directions."""
        self._link.reset(self, code)
        self.broke(CallError(Status.UNAVAILABLE, why))

    # Called by the link.

    @property
    def error(self) -> CallError | None:
        """Why nothing can be sent any more, if that is so."""
        return self._error

    def received(self, data: memoryview) -> None:
        """Take in bytes of messages.

        Raises CallError if they are no messages, or too large ones, and FrameError if they came too early.
        """
        self._uncredited += len(data)
        if self._uncredited > WINDOW:
            raise FrameError(
                Code.FLOW_CONTROL_ERROR, "more came than the window of the call allows"
            )
        if self._partial or len(data) < _PREFIX.size:
            self._partial += data
            if len(self._partial) < self._needed:
                self._credit()
                return
            data = memoryview(self._partial)
        rest = self._cut(data)
        self._partial = bytearray(rest)
        if self._messages:
            self._wake()
        self._credit()

    def _cut(self, data: memoryview) -> memoryview:
        """Take the complete messages, and return what is left, which needs `_needed` bytes to be one."""
        at = 0
        while True:
            self._needed = _PREFIX.size
            if len(data) - at < _PREFIX.size:
                return data[at:]
            is_compressed, size = _PREFIX.unpack_from(data, at)
            if is_compressed:
                raise CallError(Status.UNIMPLEMENTED, "a compressed message came: send it plain")
            if size > self._max_message:
                raise CallError(
                    Status.RESOURCE_EXHAUSTED,
                    f"a message of {size} bytes came, and at most {self._max_message} are taken",
                )
            self._needed += size
            if len(data) - at < self._needed:
                return data[at:]
            self._messages.append(bytes(data[at + _PREFIX.size : at + self._needed]))
            self._queued += self._needed
            at += self._needed

    def received_headers(self, headers: Headers, *, ends: bool) -> None:
        """Take in the headers or trailers of the server."""
        found = dict(headers)
        status = found.get("grpc-status")
        if status is None and found.get(":status", "200") != "200":
            self.broke(CallError(Status.UNAVAILABLE, f"HTTP status {found[':status']} came"))
        elif status not in (None, "0"):
            message = unquote(found.get("grpc-message", "")) or f"gRPC status {status}"
            number = int(status) if status and status.isdecimal() else Status.UNKNOWN
            self.broke(CallError(number, message))
        elif ends:
            self.over()

    def over(self) -> None:
        """Note that the peer sends nothing more."""
        self._is_over = True
        if self._partial:
            self.broke(CallError(Status.INTERNAL, "the peer ended within a message"))
        self._wake()

    def broke(self, error: CallError) -> None:
        """End the call: what has come can still be read."""
        if self._error is None and not (self._is_over and self.has_ended):
            self._error = error
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None:
            if not self._arrived.done():
                self._arrived.set_result(None)
            self._arrived = None

    def _credit(self) -> None:
        """Let the peer send as much more as was read, or as has come of a message that is not complete yet."""
        increment = self._uncredited - self._queued
        if increment >= WINDOW // 2 and not self._is_over:
            self._uncredited -= increment
            self._link.give_window(self.stream, increment)
