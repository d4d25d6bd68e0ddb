"""Splits the bytes of a connection into request frames, and frames answers. Does no I/O.

A request consists of its size (int32), a header (api key, version, correlation id, client id and, in header version 2,
tagged fields) and a body. An answer consists of its size, the correlation id, an empty set of tagged fields (only in
header version 1), and a body.

Received bytes are copied as little as possible. They arrive in a scratch buffer that all connections of an event loop
share. A complete frame is copied out of it once. The start of an incomplete frame is copied to a buffer of its own,
which receives the remaining bytes directly and grows as it fills. A size field alone therefore takes up little memory,
and only bytes that have arrived are counted.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from lacuna.agent.registry import request_header_version
from lacuna.wire import kernel
from lacuna.wire.errors import MalformedMessage
from lacuna.wire.layout import Buffer

SCRATCH_BYTES = 256 * 1024
#: The smallest first buffer of an incomplete frame, unless the frame is smaller.
FIRST_BYTES = 16 << 10
#: A buffer up to this size grows fourfold, a larger one twofold.
_FAST_BYTES = 1 << 20

SASL_AUTHENTICATE_KEY = 36
#: The header version of a SASL token without a header, and of the answer to it.
NO_HEADER = -1

_SIZE = Struct(">i")
_HEADER = Struct(">hhih")
_ANSWER_V0 = Struct(">ii")
_ANSWER_V1 = Struct(">iib")
_MIN_FRAME_BYTES = 8
# A Kafka request begins with its size. Read as a size, the first bytes of other protocols exceed any limit (369,295,617
# for a TLS client), and an error with that number would not help an operator.
_TLS_HANDSHAKE: Final = b"\x16\x03"
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC")
_BEGINNINGS: Final = {
    b"PRI ": "this is an HTTP/2 or gRPC client, but only Kafka clients are served here",
    b"SSH-": "this is an SSH client, but only Kafka clients are served here",
}


class FrameError(Exception):
    """The bytes are not a Kafka request, or the request is too large. The connection must be closed."""


class RequestFrame(NamedTuple):
    """A received request. `body` is read-only; `size` is the value of the frame's size field, in bytes."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    header_version: int
    body: memoryview
    size: int


kernel.hasten(RequestFrame, ())


class FrameReader:
    """Splits a stream of bytes into requests.

    Write the next n bytes into the buffer that `get_buffer` returns, then call `received(n)`. Nothing refers to the
    scratch buffer afterwards, so any number of connections may share one.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_frame_size",
        "_header_versions",
        "_is_known",
        "_scratch",
        "_size_bytes",
        "has_tokens",
        "max_bytes",
    )

    def __init__(
        self,
        max_bytes: int,
        scratch: memoryview,
        is_known: Callable[[int, int], bool],
        header_versions: dict[int, int] | None = None,
    ) -> None:
        """`is_known(api_key, version)` returns whether a request is served; reading any other raises FrameError.

        `header_versions` caches header versions of requests that are known to be served, by api key << 16 | version.
        """
        self.max_bytes = max_bytes
        #: Whether the frames are SASL tokens without a header (SaslHandshake v0, KIP-43).
        self.has_tokens = False
        self._scratch = scratch
        self._is_known = is_known
        self._header_versions = header_versions or {}
        self._size_bytes = b""  # the part of a size field that has arrived
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._filled = 0

    @property
    def arrived_bytes(self) -> int:
        """The number of bytes of the incomplete frame that have arrived, or 0 if there is none."""
        return 0 if self._frame is None else self._filled

    def drop_incoming(self) -> None:
        """Free the memory of the incomplete frame, whose remaining bytes will not arrive."""
        self._frame = None

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        if self._frame is None:
            return self._scratch
        return memoryview(self._frame)[self._filled :]

    def received(self, count: int) -> Sequence[RequestFrame]:
        """Process `count` more bytes, and return the requests that they complete. Raises FrameError."""
        if self._frame is None:
            return self._cut(self._scratch[:count])
        self._filled += count
        if self._filled < len(self._frame):
            return ()
        if self._filled < self._frame_size:
            self._grow(self._frame)
            return ()
        frame, self._frame = self._frame, None
        return (self._parse(memoryview(frame).toreadonly()),)

    def _cut(self, data: memoryview) -> Sequence[RequestFrame]:
        frames: list[RequestFrame] = []
        if self._size_bytes:
            missing = _SIZE.size - len(self._size_bytes)
            self._size_bytes += bytes(data[:missing])
            if len(self._size_bytes) < _SIZE.size:
                return ()
            size = self._checked(_SIZE.unpack(self._size_bytes)[0])
            self._size_bytes = b""
            data = data[missing:]
            frames, data = self._take(size, data)
        while len(data) >= _SIZE.size:
            if not self.has_tokens:
                plain, end = kernel.cut(data, self.max_bytes, self._header_versions, RequestFrame)
                frames += plain
                data = data[end:]
            if len(data) >= _SIZE.size:
                size = self._checked(_SIZE.unpack_from(data)[0])
                more, data = self._take(size, data[_SIZE.size :])
                frames += more
        if len(data):
            self._size_bytes = bytes(data)
        return frames

    def _take(self, size: int, data: memoryview) -> tuple[list[RequestFrame], memoryview]:
        if len(data) >= size:
            whole = memoryview(bytes(data[:size]))
            return [self._parse(whole)], data[size:]
        self._frame_size = size
        self._frame = bytearray(_room(len(data), size))
        self._frame[: len(data)] = data
        self._filled = len(data)
        return [], data[len(data) :]

    def _grow(self, full: bytearray) -> None:
        """Copy the incomplete frame to a larger buffer. The old buffer is not resized, since views of it may exist."""
        self._frame = bytearray(_room(len(full), self._frame_size))
        self._frame[: len(full)] = full

    def _checked(self, size: int) -> int:
        if size > self.max_bytes and (who := stranger(_SIZE.pack(size))):
            raise FrameError(who)
        if size < (0 if self.has_tokens else _MIN_FRAME_BYTES):
            raise FrameError(f"a frame of {size} bytes is not a Kafka request")
        if size > self.max_bytes:
            raise FrameError(f"a frame of {size} bytes exceeds the limit of {self.max_bytes}")
        return int(size)

    def _parse(self, data: memoryview) -> RequestFrame:
        if self.has_tokens:
            return RequestFrame(SASL_AUTHENTICATE_KEY, 0, 0, "", NO_HEADER, data, len(data))
        if len(data) < _HEADER.size:
            raise FrameError(f"a frame of {len(data)} bytes is too short for a request header")
        api_key, api_version, correlation_id, id_size = _HEADER.unpack_from(data)
        if not self._is_known(api_key, api_version):
            raise FrameError(f"API {api_key} version {api_version} is not served")
        position = _HEADER.size + max(id_size, 0)
        if id_size < -1 or position > len(data):
            raise FrameError(
                f"a client id of {id_size} bytes does not fit into its frame of {len(data)} bytes"
            )
        client_id = str(data[_HEADER.size : position], "utf-8", "replace")
        header_version = request_header_version(api_key, api_version)
        if header_version == 2:
            position = _skip_tagged_fields(data, position)
        return RequestFrame(
            api_key,
            api_version,
            correlation_id,
            client_id,
            header_version,
            data[position:],
            len(data),
        )


def answer_buffers(
    correlation_id: int, header_version: int, body: Sequence[Buffer]
) -> Sequence[Buffer]:
    """Return the frame of an answer as buffers to write in order. The buffers of `body` are not copied.

    `header_version` is NO_HEADER for a SASL token."""
    size = sum(map(len, body)) + 4
    if header_version == NO_HEADER:
        return (_SIZE.pack(size - 4), *body)
    if header_version == 0:
        return (_ANSWER_V0.pack(size, correlation_id), *body)
    return (_ANSWER_V1.pack(size + 1, correlation_id, 0), *body)


def _room(arrived: int, size: int) -> int:
    """Return the size of the buffer for a frame of `size` bytes, of which `arrived` bytes have arrived."""
    return min(size, max(FIRST_BYTES, 2 * arrived, min(4 * arrived, _FAST_BYTES)))


def _skip_tagged_fields(data: memoryview, position: int) -> int:
    """Return the position after the tagged fields at `position`. Lacuna uses no tagged fields in request headers."""
    try:
        return kernel.after_tags(data, position)
    except MalformedMessage as error:
        raise FrameError(f"invalid request header: {error}") from error


def stranger(beginning: bytes) -> str:
    """Describe the kind of client whose connection begins with these four bytes, or return "" if unknown."""
    if beginning.startswith(_TLS_HANDSHAKE):
        return (
            "this is a TLS client, but this listener does not use TLS: set the client's security.protocol to "
            "PLAINTEXT or SASL_PLAINTEXT, or connect to a listener with TLS"
        )
    if beginning in _HTTP:
        return "this is an HTTP client, but only Kafka clients are served here"
    return _BEGINNINGS.get(beginning, "")
