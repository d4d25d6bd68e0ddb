"""The frames of HTTP/2 as bytes (RFC 9113, sections 4 and 6)."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

#: What a client sends first.
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_SIZE: Final = 9
#: What a peer may send in one frame, and in a stream or connection unread, until it is told otherwise.
DEFAULT_FRAME: Final = 16_384
DEFAULT_WINDOW: Final = 65_535
MAX_FRAME: Final = (1 << 24) - 1
MAX_WINDOW: Final = (1 << 31) - 1

_HEAD: Final = Struct(">BHBBI")
_SETTING: Final = Struct(">HI")
_U32: Final = Struct(">I")
_STREAM_MASK: Final = (1 << 31) - 1


class Kind(IntEnum):
    """Types of frames. A frame of any other type is ignored, as the RFC wants."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Setting(IntEnum):
    """Settings that matter here."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Code(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20


class FrameError(Exception):
    """The peer broke the rules of HTTP/2, so that the connection has to end."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """Return the head of a frame whose payload has `size` bytes."""
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream)


def read_head(data: Bytes, at: int) -> tuple[int, int, int, int]:
    """Return the size of the payload, the type, the flags and the stream of the frame that begins at `at`."""
    high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
    return high << 16 | low, kind, flags, stream & _STREAM_MASK


def settings(values: Mapping[Setting, int]) -> bytes:
    """Return a whole SETTINGS frame."""
    payload = b"".join(_SETTING.pack(name, value) for name, value in values.items())
    return head(len(payload), Kind.SETTINGS, 0, 0) + payload


def read_settings(payload: Bytes) -> Iterator[tuple[int, int]]:
    """Yield the settings of a SETTINGS frame, also those that are not known here. Raises FrameError."""
    if len(payload) % _SETTING.size:
        raise FrameError(Code.FRAME_SIZE_ERROR, "a SETTINGS frame has an impossible size")
    yield from _SETTING.iter_unpack(payload)


def window_update(stream: int, increment: int) -> bytes:
    """Return a whole WINDOW_UPDATE frame."""
    return head(4, Kind.WINDOW_UPDATE, 0, stream) + _U32.pack(increment)


def rst_stream(stream: int, code: Code) -> bytes:
    """Return a whole RST_STREAM frame."""
    return head(4, Kind.RST_STREAM, 0, stream) + _U32.pack(code)


def goaway(last_stream: int, code: Code, why: str) -> bytes:
    """Return a whole GOAWAY frame."""
    payload = _U32.pack(last_stream) + _U32.pack(code) + why.encode()[:1_000]
    return head(len(payload), Kind.GOAWAY, 0, 0) + payload


def read_u32(payload: Bytes, at: int = 0) -> int:
    """Return the number in a payload. Raises FrameError if there is none."""
    if len(payload) < at + 4:
        raise FrameError(Code.FRAME_SIZE_ERROR, "a frame is too short")
    return int(_U32.unpack_from(payload, at)[0])


def unpadded(payload: memoryview, flags: int) -> memoryview:
    """Return the payload of a DATA or HEADERS frame without its padding. Raises FrameError."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise FrameError(Code.PROTOCOL_ERROR, "a frame has more padding than bytes")
    return payload[1 : len(payload) - payload[0]]
