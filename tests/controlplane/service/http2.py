"""An HTTP/2 client (RFC 9113) that sends arbitrary frames as bytes over a blocking socket."""

from __future__ import annotations

import socket
from contextlib import suppress
from struct import pack, unpack
from typing import Final

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0,
    1,
    3,
    4,
    6,
    7,
    8,
    9,
)
END_STREAM, END_HEADERS = 1, 4
_OPENING: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MAX_STREAMS, _INITIAL_WINDOW, _MAX_FRAME = 3, 4, 5


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return pack(">I", len(payload))[1:] + pack(">BBI", kind, flags, stream) + payload


def headers_of(path: str) -> bytes:
    """Return the headers of a gRPC call, each as a literal that uses no table."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "tests",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    parts = (text.encode() for field in fields.items() for text in field)
    texts = [pack("B", len(part)) + part for part in parts]
    return b"".join(
        b"\0" + name + value for name, value in zip(texts[::2], texts[1::2], strict=True)
    )


class Http2:
    """A connection that respects the server's windows, so that only the tested behaviour ends it."""

    def __init__(self, address: str, seconds: float = 60.0) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), seconds)
        self._windows = {0: 65_535}
        self._initial_window = 65_535
        self._max_frame = 16_384
        self.max_streams = 0
        self.socket.sendall(_OPENING + frame(SETTINGS, 0, 0))
        while not self.max_streams:
            self.take()

    def shut(self) -> None:
        """Close the connection, even while another thread is reading from it."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def begin(self, stream: int, path: str) -> None:
        self._windows[stream] = self._initial_window
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, headers_of(path)))

    def send(self, stream: int, data: bytes) -> None:
        """Send data as the windows allow."""
        view = memoryview(data)
        while view:
            room = min(self._windows[0], self._windows[stream], self._max_frame, len(view))
            if not room:
                self.take()
                continue
            self.socket.sendall(frame(DATA, 0, stream, bytes(view[:room])))
            self._windows[0] -= room
            self._windows[stream] -= room
            view = view[room:]

    def take(self) -> tuple[int, int]:
        """Take the next frame. Return its type and its stream. Raises ConnectionError if the connection has ended."""
        head = self._exactly(9)
        size, kind, flags, stream = (
            int.from_bytes(head[:3]),
            head[3],
            head[4],
            int.from_bytes(head[5:]),
        )
        payload = self._exactly(size)
        if kind == WINDOW_UPDATE and stream in self._windows:
            self._windows[stream] += int.from_bytes(payload)
        elif kind == SETTINGS and not flags:
            self._settle(dict(unpack(">HI", payload[at : at + 6]) for at in range(0, size, 6)))
        elif kind == PING and not flags:
            self.socket.sendall(frame(PING, 1, 0, payload))
        return kind, stream

    def _settle(self, settings: dict[int, int]) -> None:
        self.max_streams = settings.get(_MAX_STREAMS, self.max_streams)
        self._max_frame = settings.get(_MAX_FRAME, self._max_frame)
        self._initial_window = settings.get(_INITIAL_WINDOW, self._initial_window)
        self.socket.sendall(frame(SETTINGS, 1, 0))

    def _exactly(self, size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            part = self.socket.recv(size - len(taken))
            if not part:
                raise ConnectionError("the server has closed the connection")
            taken += part
        return taken
