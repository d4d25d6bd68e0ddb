"""The protocol's primitives for the codecs that are written by hand (Produce and Fetch).

A reader takes (body, position) and gives (value, position behind it). Bytes that are not what they
should be raise MalformedRequest; struct.error is left to the codec, which turns it into one.
"""

import struct
from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
MAX_VARINT_SHIFT: Final = 28
#: Bytes, in every version: what the length of a string that is not compact can say.
LONGEST_STRING: Final = 0x7FFF


class MalformedRequest(Exception):
    """A request's body is not what its schema says. The connection is closed, as Kafka does."""


def read_uvarint(body: memoryview, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    value = shift = 0
    try:
        while True:
            byte = body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > MAX_VARINT_SHIFT:
                raise MalformedRequest("a varint is longer than 32 bits")
    except IndexError:
        raise MalformedRequest("the request ends inside a varint") from None


def read_bytes(body: memoryview, at: int, size: int) -> tuple[memoryview, int]:
    """`size` bytes as a view of the request."""
    end = at + size
    if size < 0 or end > len(body):
        raise MalformedRequest(f"{size} bytes at {at} do not fit the request of {len(body)}")
    return body[at:end], end


def check_string(size: int) -> None:
    """Raises MalformedRequest for a string of `size` bytes that is too long, as in Kafka."""
    if size > LONGEST_STRING:
        raise MalformedRequest(f"a string of {size} bytes is beyond the limit of {LONGEST_STRING}")


def read_string(body: memoryview, at: int, flexible: bool) -> tuple[str | None, int]:
    """A nullable string, compact in flexible versions."""
    if flexible:
        size, at = read_uvarint(body, at)
        size -= 1
        check_string(size)
    else:
        (size,) = INT16.unpack_from(body, at)
        at += 2
    if size < 0:
        return None, at
    raw, at = read_bytes(body, at, size)
    try:
        return str(raw, "utf-8"), at
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"a string is not UTF-8: {error}") from None


def read_name(body: memoryview, at: int, flexible: bool) -> tuple[str, int]:
    """A string that must not be null."""
    name, at = read_string(body, at, flexible)
    if name is None:
        raise MalformedRequest("a string that cannot be null is null")
    return name, at


def read_count(body: memoryview, at: int, flexible: bool) -> tuple[int, int]:
    """The length of an array; a null array counts as an empty one."""
    if flexible:
        count, at = read_uvarint(body, at)
        count -= 1
    else:
        (count,) = INT32.unpack_from(body, at)
        at += 4
    if count > len(body) - at:
        raise MalformedRequest(f"{count} elements do not fit the request")
    return max(count, 0), at


def skip_tags(body: memoryview, at: int) -> int:
    """The position behind the tagged fields at `at`, none of which concerns a server of clients."""
    count, at = read_uvarint(body, at)
    for _ in range(count):
        _, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        _, at = read_bytes(body, at, size)
    return at


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_string(text: str | None, flexible: bool) -> bytes:
    """A nullable string, compact in flexible versions."""
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    raw = text.encode()
    return (uvarint(len(raw) + 1) if flexible else INT16.pack(len(raw))) + raw


def write_count(count: int, flexible: bool) -> bytes:
    """The length of an array that is not null."""
    return uvarint(count + 1) if flexible else INT32.pack(count)
