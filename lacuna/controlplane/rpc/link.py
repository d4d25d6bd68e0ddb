"""One HTTP/2 connection, at either end: frames, headers, flow control and pings."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError

from lacuna.base.tls import subject_of
from lacuna.controlplane.rpc import frames
from lacuna.controlplane.rpc.call import WINDOW, Call, CallError, Headers, Status
from lacuna.controlplane.rpc.frames import Code, FrameError, Kind, Setting

_log = logging.getLogger("lacuna.controlplane")

#: How many bytes a peer may send in all streams together before they are read. Each stream has a bound of its own.
_LINK_WINDOW: Final = 64 << 20
_MAX_HEADER_BYTES: Final = 64 << 10
_MAX_CALLS: Final = 100
#: How many answers to PING and SETTINGS may wait for a peer that does not read: more of them are an attack.
_MAX_UNREAD_ANSWERS: Final = 1_000

_OPENING: Final = frames.settings(
    {
        Setting.ENABLE_PUSH: 0,
        Setting.MAX_CONCURRENT_STREAMS: _MAX_CALLS,
        Setting.INITIAL_WINDOW_SIZE: WINDOW,
        Setting.MAX_FRAME_SIZE: 1 << 20,
        Setting.MAX_HEADER_LIST_SIZE: _MAX_HEADER_BYTES,
    }
) + frames.window_update(0, _LINK_WINDOW - frames.DEFAULT_WINDOW)
_SETTINGS_ACK: Final = frames.head(0, Kind.SETTINGS, frames.ACK, 0)
_MAX_FRAME_TAKEN: Final = 1 << 20

#: Is called with each call that a client begins, and its headers.
OnCall = Callable[[Call, Headers], None]


class Link(asyncio.Protocol):
    """The protocol of one connection.

    A server's link has `on_call`. A peer that has said nothing for `ping_after` seconds is pinged, and has as long
    again to answer. `on_made` is called once there is a connection, `on_lost` once it has ended. No message may have
    more than `max_message` bytes.
    """

    def __init__(
        self,
        *,
        max_message: int,
        ping_after: float,
        on_call: OnCall | None = None,
        on_made: Callable[["Link"], None] = lambda _: None,
        on_lost: Callable[["Link"], None] = lambda _: None,
    ) -> None:
        self._max_message = max_message
        self._ping_after = ping_after
        self._on_call = on_call
        self._on_made = on_made
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._unread = b""
        self._awaits_preface = on_call is not None
        self._decoder = Decoder(_MAX_HEADER_BYTES)
        self._encoder = Encoder()
        self._block: bytearray | None = None
        self._block_stream = self._block_flags = 0
        self._calls: dict[int, Call] = {}
        self._last_stream = 0
        self._window = frames.DEFAULT_WINDOW
        self._peer_window = frames.DEFAULT_WINDOW
        self._peer_frame = frames.DEFAULT_FRAME
        self._uncredited = 0
        self._unread_answers = 0
        #: Completed when a window has grown, the transport takes bytes again, or a call has broken.
        self._changed: asyncio.Future[None] | None = None
        self._is_paused = False
        self._heard = self._loop.time()
        self._is_pinged = False
        self._timer: asyncio.TimerHandle | None = None
        self._why_closed = ""
        self._is_leaving = False
        self.is_encrypted = False
        #: The subject of the certificate that the peer has presented, "" if it has presented none.
        self.peer = ""
        #: Its address, without the port; "" on a Unix socket.
        self.host = ""

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the connection."""
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        self.host = str(name[0]) if isinstance(name, tuple) else ""
        encryption = transport.get_extra_info("ssl_object")
        self.is_encrypted = encryption is not None
        certificate = encryption.getpeercert(binary_form=True) if self.is_encrypted else None
        try:
            self.peer = subject_of(certificate) if certificate else ""
        except ValueError as error:
            self._why_closed = str(error)
            _log.warning("%s: connection closed: %s", self.host, error)
            self._transport.abort()
            return
        opening = _OPENING if self._on_call else frames.PREFACE + _OPENING
        self._transport.write(opening)
        self._timer = self._loop.call_later(self._ping_after, self._look)
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        """Take in bytes of the peer."""
        self._heard = self._loop.time()
        self._is_pinged = False
        if self._unread:
            data = self._unread + data
        try:
            used = self._take_preface(data)
            if not self._awaits_preface:
                used += self._take_frames(memoryview(data)[used:])
        except FrameError as error:
            self._fail(error.code, str(error))
            return
        self._unread = data[used:]

    def connection_lost(self, exc: Exception | None) -> None:
        """Break all calls."""
        if self._timer is not None:
            self._timer.cancel()
        self._break_all(self._why_closed or (str(exc) if exc else "the connection was closed"))
        self._on_lost(self)

    def pause_writing(self) -> None:
        """Send no more messages until the peer reads."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Go on sending."""
        self._is_paused = False
        self._has_changed()

    # Called by who uses the connection.

    def open(self, path: str, authority: str) -> Call:
        """Begin a call, as a client. Raises CallError if the connection has ended."""
        if self._why_closed or self._transport.is_closing():
            raise CallError(Status.UNAVAILABLE, self._why_closed or "the connection was closed")
        stream = self._last_stream + 2 if self._last_stream else 1
        self._last_stream = stream
        call = self._new_call(stream)
        self.send_headers(
            call,
            [
                (":method", "POST"),
                (":scheme", "https" if self.is_encrypted else "http"),
                (":path", path),
                (":authority", authority),
                ("te", "trailers"),
                ("content-type", "application/grpc"),
                ("user-agent", "lacuna"),
            ],
        )
        return call

    def leave(self) -> None:
        """Take no more calls, as a server."""
        self._is_leaving = True
        self._write(frames.goaway(self._last_stream, Code.NO_ERROR, "the server is stopping"))

    def close(self, why: str) -> None:
        """Close the connection once everything was sent."""
        self._why_closed = self._why_closed or why
        self._transport.close()

    # Called by calls.

    def send_headers(self, call: Call, headers: Headers, *, ends: bool = False) -> None:
        """Send headers or trailers."""
        if call.has_ended or call.error is not None:
            return
        block = self._encoder.encode(headers)
        flags = frames.END_HEADERS | (frames.END_STREAM if ends else 0)
        self._write(frames.head(len(block), Kind.HEADERS, flags, call.stream) + block)
        if ends:
            # The server's end ends the call, whatever the client still sends.
            call.has_ended = True
            self._calls.pop(call.stream, None)

    def send_end(self, call: Call) -> None:
        """Say that this end sends no more messages, as a client."""
        self._write(frames.head(0, Kind.DATA, frames.END_STREAM, call.stream))
        call.has_ended = True

    async def send_data(self, call: Call, data: bytes) -> None:
        """Send bytes as the windows of the stream and of the connection allow. Raises CallError if the call breaks."""
        view = memoryview(data)
        while True:
            room = min(call.window, self._window)
            if room > 0 and not self._is_paused:
                sent = self._send_some(call, view[:room])
                if sent == len(view):
                    return
                view = view[sent:]
            await self._wait_for_change()
            if call.error is not None:
                raise call.error

    def _send_some(self, call: Call, view: memoryview) -> int:
        size = len(view)
        call.window -= size
        self._window -= size
        most = self._peer_frame
        for start in range(0, size, most):
            part = view[start : start + most]
            self._transport.writelines([frames.head(len(part), Kind.DATA, 0, call.stream), part])
        return size

    def give_window(self, stream: int, increment: int) -> None:
        """Let the peer send so many more bytes on this stream."""
        self._write(frames.window_update(stream, increment))

    def reset(self, call: Call, code: Code) -> None:
        """End a stream at once."""
        if self._calls.pop(call.stream, None) is not None:
            self._write(frames.rst_stream(call.stream, code))
            self._has_changed()

    # Frames.

    def _take_preface(self, data: bytes) -> int:
        """Take what a client sends first, once it is complete, and return how many bytes that was."""
        if not self._awaits_preface:
            return 0
        start = data[: len(frames.PREFACE)]
        if not frames.PREFACE.startswith(start):
            raise FrameError(Code.PROTOCOL_ERROR, "the client does not speak HTTP/2")
        self._awaits_preface = start != frames.PREFACE
        return 0 if self._awaits_preface else len(start)

    def _take_frames(self, data: memoryview) -> int:
        """Take the complete frames, and return how many bytes they have."""
        at, end = 0, len(data)
        while end - at >= frames.HEAD_SIZE:
            size, kind, flags, stream = frames.read_head(data, at)
            if size > _MAX_FRAME_TAKEN:
                raise FrameError(Code.FRAME_SIZE_ERROR, f"a frame of {size} bytes came")
            start = at + frames.HEAD_SIZE
            if end - start < size:
                break
            at = start + size
            if self._block is not None and kind != Kind.CONTINUATION:
                raise FrameError(Code.PROTOCOL_ERROR, "a frame came between parts of headers")
            if kind == Kind.DATA:
                self._take_data(stream, flags, data[start:at], size)
            else:
                self._take(kind, flags, stream, data[start:at])
        return at

    def _take(self, kind: int, flags: int, stream: int, payload: memoryview) -> None:
        if kind == Kind.HEADERS:
            self._take_headers(flags, stream, payload)
        elif kind == Kind.CONTINUATION:
            self._take_continuation(flags, stream, payload)
        elif kind == Kind.SETTINGS:
            self._take_settings(flags, payload)
        elif kind == Kind.WINDOW_UPDATE:
            self._take_window(stream, frames.read_u32(payload))
        elif kind == Kind.PING:
            self._take_ping(flags, payload)
        elif kind == Kind.RST_STREAM:
            self._take_reset(stream, frames.read_u32(payload))
        elif kind == Kind.GOAWAY:
            self._take_goaway(payload)
        elif kind == Kind.PUSH_PROMISE:
            raise FrameError(Code.PROTOCOL_ERROR, "a PUSH_PROMISE came, which is switched off")

    def _take_data(self, stream: int, flags: int, payload: memoryview, size: int) -> None:
        self._uncredited += size
        if self._uncredited >= _LINK_WINDOW // 2:
            self._write(frames.window_update(0, self._uncredited))
            self._uncredited = 0
        call = self._calls.get(stream)
        if call is None:
            if stream == 0 or self._is_idle(stream):
                raise FrameError(
                    Code.PROTOCOL_ERROR, f"DATA came on stream {stream}, which is idle"
                )
            return  # it was reset here, which the peer did not know yet
        try:
            call.received(frames.unpadded(payload, flags))
        except CallError as error:
            call.cancel(Code.CANCEL, str(error))
            return
        if flags & frames.END_STREAM:
            self._peer_ended(call)

    def _take_headers(self, flags: int, stream: int, payload: memoryview) -> None:
        block = frames.unpadded(payload, flags)
        if flags & frames.PRIORITY:
            block = block[5:]
        self._block, self._block_stream, self._block_flags = bytearray(block), stream, flags
        self._end_block(flags)

    def _take_continuation(self, flags: int, stream: int, payload: memoryview) -> None:
        if self._block is None or stream != self._block_stream:
            raise FrameError(Code.PROTOCOL_ERROR, "a CONTINUATION came that continues nothing")
        self._block += payload
        if len(self._block) > _MAX_HEADER_BYTES:
            raise FrameError(Code.ENHANCE_YOUR_CALM, "headers came that are too large")
        self._end_block(flags)

    def _end_block(self, flags: int) -> None:
        if not flags & frames.END_HEADERS or self._block is None:
            return
        try:
            headers = [
                (str(name), str(value)) for name, value in self._decoder.decode(bytes(self._block))
            ]
        except (HPACKError, UnicodeDecodeError) as error:
            raise FrameError(
                Code.COMPRESSION_ERROR, "headers came that cannot be decoded"
            ) from error
        self._block = None
        ends = bool(self._block_flags & frames.END_STREAM)
        call = self._calls.get(self._block_stream)
        if call is not None:
            call.received_headers(headers, ends=ends)
        elif self._on_call is not None and self._is_idle(self._block_stream):
            call = self._begin(self._on_call, self._block_stream, headers)
        if call is not None and ends:
            self._peer_ended(call)

    def _begin(self, on_call: OnCall, stream: int, headers: Headers) -> Call | None:
        if not stream % 2:
            raise FrameError(Code.PROTOCOL_ERROR, f"a client has opened stream {stream}")
        self._last_stream = stream
        if self._is_leaving or len(self._calls) >= _MAX_CALLS:
            self._write(frames.rst_stream(stream, Code.REFUSED_STREAM))
            return None
        call = self._new_call(stream)
        on_call(call, headers)
        return call

    def _take_settings(self, flags: int, payload: memoryview) -> None:
        if flags & frames.ACK:
            return
        for name, value in frames.read_settings(payload):
            if name == Setting.INITIAL_WINDOW_SIZE:
                if value > frames.MAX_WINDOW:
                    raise FrameError(Code.FLOW_CONTROL_ERROR, "a window is too large")
                for call in self._calls.values():
                    call.window += value - self._peer_window
                self._peer_window = value
            elif name == Setting.MAX_FRAME_SIZE:
                if not frames.DEFAULT_FRAME <= value <= frames.MAX_FRAME:
                    raise FrameError(Code.PROTOCOL_ERROR, f"frames of at most {value} bytes?")
                self._peer_frame = value
        self._answer(_SETTINGS_ACK)
        self._has_changed()

    def _take_window(self, stream: int, increment: int) -> None:
        if not increment:
            raise FrameError(Code.PROTOCOL_ERROR, "a WINDOW_UPDATE of nothing came")
        if stream == 0:
            self._window += increment
            window = self._window
        else:
            call = self._calls.get(stream)
            if call is None:
                return
            call.window += increment
            window = call.window
        if window > frames.MAX_WINDOW:
            raise FrameError(Code.FLOW_CONTROL_ERROR, "a window has become too large")
        self._has_changed()

    def _take_ping(self, flags: int, payload: memoryview) -> None:
        if len(payload) != 8:
            raise FrameError(Code.FRAME_SIZE_ERROR, "a PING has an impossible size")
        if not flags & frames.ACK:
            self._answer(frames.head(8, Kind.PING, frames.ACK, 0) + payload)

    def _take_reset(self, stream: int, code: int) -> None:
        call = self._calls.pop(stream, None)
        if call is not None:
            call.broke(CallError(Status.UNAVAILABLE, f"the peer has reset the call, code {code}"))
            self._has_changed()

    def _take_goaway(self, payload: memoryview) -> None:
        last, code = frames.read_u32(payload), frames.read_u32(payload, 4)
        why = bytes(payload[8:]).decode(errors="replace") or f"code {code}"
        self._why_closed = f"the peer ends the connection: {why}"
        for stream, call in list(self._calls.items()):
            if self._on_call is None and (stream > last or code != Code.NO_ERROR):
                del self._calls[stream]
                call.broke(CallError(Status.UNAVAILABLE, self._why_closed))
        self._has_changed()

    # Streams.

    def _is_idle(self, stream: int) -> bool:
        """Whether nothing was ever sent on this stream."""
        return stream > self._last_stream

    def _new_call(self, stream: int) -> Call:
        call = self._calls[stream] = Call(self, stream, self._max_message)
        call.window = self._peer_window
        call.peer = self.peer
        call.host = self.host
        return call

    def _peer_ended(self, call: Call) -> None:
        call.over()
        if call.has_ended:
            self._calls.pop(call.stream, None)

    # The connection.

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _answer(self, frame: bytes) -> None:
        """Answer a frame that the peer may send as often as it likes."""
        if not self._transport.get_write_buffer_size():
            self._unread_answers = 0
        self._unread_answers += 1
        if self._unread_answers > _MAX_UNREAD_ANSWERS:
            raise FrameError(Code.ENHANCE_YOUR_CALM, "the peer asks and does not read the answers")
        self._write(frame)

    def _has_changed(self) -> None:
        if self._changed is not None:
            changed, self._changed = self._changed, None
            if not changed.done():
                changed.set_result(None)

    async def _wait_for_change(self) -> None:
        if self._changed is None:
            self._changed = self._loop.create_future()
        # Not awaited itself: several may wait, and one that is cancelled must not cancel it for the others.
        await asyncio.wait([self._changed])

    def _look(self) -> None:
        """Ping a silent peer, and give up one that has not answered a ping."""
        silent = self._loop.time() - self._heard
        if silent < self._ping_after:
            self._timer = self._loop.call_later(self._ping_after - silent, self._look)
            return
        if self._is_pinged:
            self._why_closed = f"the peer was silent for {silent:.1f} s"
            self._transport.abort()
            return
        self._is_pinged = True
        self._write(frames.head(8, Kind.PING, 0, 0) + bytes(8))
        self._timer = self._loop.call_later(self._ping_after, self._look)

    def _fail(self, code: Code, why: str) -> None:
        self._why_closed = why
        self._write(frames.goaway(self._last_stream, code, why))
        self._transport.close()
        self._break_all(why)

    def _break_all(self, why: str) -> None:
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.broke(CallError(Status.UNAVAILABLE, why))
        self._has_changed()
