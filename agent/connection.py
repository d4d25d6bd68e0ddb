"""The bytes of one connection, without I/O: received bytes in, request frames out.

A request is a size (int32) and that many bytes: a header (api key, version, correlation id, client
id and, in header version 2, tagged fields) and a body. An answer is a size, the correlation id, in
header version 1 an empty set of tagged fields, and the body.

Receiving copies little: bytes land in a scratch buffer that all connections of a loop share; a
frame that is whole there is copied out once; of one that is not, what has come is copied into a
buffer of the frame's own size, and all further bytes are received into that directly. A very large
one begins with FIRST_BYTES and grows as it fills, so that a size field alone takes no more.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from agent.apis.registry import request_header_version
from agent.wire import Buffer

SCRATCH_BYTES = 256 * 1024
FIRST_BYTES = 4 << 20

_SIZE = Struct(">i")
_HEADER = Struct(">hhih")
_ANSWER_V0 = Struct(">ii")
_ANSWER_V1 = Struct(">iib")
_MIN_FRAME_BYTES = 8


class FrameError(Exception):
    """Bytes that are no Kafka request, or one too large. The connection is of no more use."""


class RequestFrame(NamedTuple):
    """One request as received. `body` is read-only; `size` is the frame's, as its size field."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    header_version: int
    body: memoryview
    size: int


class FrameReader:
    """Cuts a stream of bytes into requests.

    Ask `get_buffer` where the next bytes go, put n of them there, say `received(n)`. Nothing is
    kept of the scratch buffer between the two calls, so any number of connections may share one.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_frame_size",
        "_is_known",
        "_max_bytes",
        "_scratch",
        "_size_bytes",
    )

    def __init__(
        self, max_bytes: int, scratch: memoryview, is_known: Callable[[int, int], bool]
    ) -> None:
        """`is_known(api_key, version)` says whether such a request may be read at all."""
        self._max_bytes = max_bytes
        self._scratch = scratch
        self._is_known = is_known
        self._size_bytes = b""  # of a size field that has not come whole
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._filled = 0

    @property
    def incoming_bytes(self) -> int:
        """The size of the frame that is being received and not yet whole; 0 where there is none."""
        return 0 if self._frame is None else self._frame_size

    def drop_incoming(self) -> None:
        """The rest will not come: free the memory of the frame that is not whole."""
        self._frame = None

    def get_buffer(self) -> memoryview:
        """Where the next bytes belong, never empty."""
        if self._frame is None:
            return self._scratch
        return memoryview(self._frame)[self._filled :]

    def received(self, count: int) -> Sequence[RequestFrame]:
        """The requests that `count` more bytes make whole; none: wait for more. Raises FrameError."""
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
        if self._size_bytes:
            missing = _SIZE.size - len(self._size_bytes)
            self._size_bytes += bytes(data[:missing])
            if len(self._size_bytes) < _SIZE.size:
                return ()
            size = self._checked(_SIZE.unpack(self._size_bytes)[0])
            self._size_bytes = b""
            data = data[missing:]
            frames, data = self._take(size, data)
        else:
            frames = []
        while len(data) >= _SIZE.size:
            size = self._checked(_SIZE.unpack_from(data)[0])
            more, data = self._take(size, data[_SIZE.size :])
            frames += more
        if len(data):
            self._size_bytes = bytes(data)
        return frames

    def _take(self, size: int, data: memoryview) -> tuple[list[RequestFrame], memoryview]:
        """The frame of `size` bytes that `data` begins with, if whole; and what is left."""
        if len(data) >= size:
            whole = memoryview(bytes(data[:size]))
            return [self._parse(whole)], data[size:]
        self._frame_size = size
        self._frame = bytearray(min(size, max(FIRST_BYTES, 2 * len(data))))
        self._frame[: len(data)] = data
        self._filled = len(data)
        return [], data[len(data) :]

    def _grow(self, full: bytearray) -> None:
        """A larger buffer with the same beginning; whoever still holds a view keeps the old one."""
        self._frame = bytearray(min(self._frame_size, 4 * len(full)))
        self._frame[: len(full)] = full

    def _checked(self, size: int) -> int:
        if size < _MIN_FRAME_BYTES:
            raise FrameError(f"a frame of {size} bytes is no Kafka request")
        if size > self._max_bytes:
            raise FrameError(f"a frame of {size} bytes is beyond the limit of {self._max_bytes}")
        return int(size)

    def _parse(self, data: memoryview) -> RequestFrame:
        if len(data) < _HEADER.size:
            raise FrameError(f"a frame of {len(data)} bytes has no room for a request header")
        api_key, api_version, correlation_id, id_size = _HEADER.unpack_from(data)
        if not self._is_known(api_key, api_version):
            raise FrameError(f"API {api_key} version {api_version} is not served")
        position = _HEADER.size + max(id_size, 0)
        if id_size < -1 or position > len(data):
            raise FrameError(f"a client id of {id_size} bytes in a frame of {len(data)}")
        try:
            client_id = str(data[_HEADER.size : position], "utf-8")
        except UnicodeDecodeError as error:
            raise FrameError("a client id that is not UTF-8") from error
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
    """An answer as buffers to write in order. The buffers of `body` are not copied."""
    size = sum(map(len, body)) + 4
    if header_version == 0:
        return (_ANSWER_V0.pack(size, correlation_id), *body)
    return (_ANSWER_V1.pack(size + 1, correlation_id, 0), *body)


def _skip_tagged_fields(data: memoryview, position: int) -> int:
    """The position after the tagged fields at `position`; we know none of a request header."""
    count, position = _read_uvarint(data, position)
    for _ in range(count):
        _, position = _read_uvarint(data, position)
        size, position = _read_uvarint(data, position)
        position += size
        if position > len(data):
            raise FrameError("tagged fields of the request header pass the end of the frame")
    return position


def _read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            raise FrameError("the request header passes the end of the frame")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise FrameError("a varint of more than five bytes in the request header")
