"""Output formats of `lacuna consume`: kcat's placeholders, or one JSON object per line.

To keep up with the client, both formats process a portion of records at a time and rely on Python's built-in loops.
"""

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from json.encoder import encode_basestring
from operator import methodcaller
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)

from lacuna.base.errors import UserError

#: Returns the output for a portion of records.
Render = Callable[[Sequence[Message]], bytes]
_Column = Callable[[Sequence[Any]], Iterable[Any]]

_PART: Final = re.compile(r"\\x([0-9A-Fa-f]{2})|\\(.?)|%(.?)|([^\\%]+)", re.DOTALL)
#: The binary form of kcat's %R.
_SIZE: Final = struct.Struct(">i")
#: The timestamp types, with kcat's names.
_TYPES: Final = {TIMESTAMP_CREATE_TIME: '"create"', TIMESTAMP_LOG_APPEND_TIME: '"logappend"'}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def unescape(text: str, what: str) -> bytes:
    r"""Convert the text of the option `what` to bytes, with the escapes \n \t \r \0 \\ and \xHH. Raises UserError."""
    return b"".join(part for part, _ in _parts(text.replace("%", "%%"), what))


def parse_format(text: str, null: bytes = b"") -> Render:
    """Return a function that renders records in a kcat format, with `null` for null keys and values.

    Raises UserError for an unsupported placeholder or escape.
    """
    template = b""
    columns: list[_Column] = []
    for literal, placeholder in _parts(text, "--format"):
        template += literal.replace(b"%", b"%%")
        if placeholder:
            code, column = _PLACEHOLDERS[placeholder]
            template += code
            columns.append(column(null))
    if not columns:
        return lambda portion: (template % ()) * len(portion)

    def render(portion: Sequence[Message]) -> bytes:
        rows = zip(*(column(portion) for column in columns), strict=True)
        return b"".join(map(template.__mod__, rows))

    return render


def render_json(portion: Sequence[Message]) -> bytes:
    """Render one JSON object per line. Bytes that are not UTF-8 become an object {"base64": TEXT}."""
    return "".join(map(_json_line, portion)).encode()


def _json_line(message: Any) -> str:
    kind, timestamp = message.timestamp()
    shown = "null" if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
    type_ = _TYPES.get(kind, "null")
    headers = ", ".join(
        f'{{"name": {encode_basestring(name)}, "value": {_json_text(_encoded(value))}}}'
        for name, value in message.headers() or ()
    )
    return (
        f'{{"topic": "{message.topic()}", "partition": {message.partition()}, '
        f'"offset": {message.offset()}, "timestamp": {shown}, '
        f'"timestamp_type": {type_}, '
        f'"key": {_json_text(message.key())}, "value": {_json_text(message.value())}, '
        f'"headers": [{headers}]}}\n'
    )


def _json_text(value: bytes | None) -> str:
    if value is None:
        return "null"
    try:
        return encode_basestring(value.decode())
    except UnicodeDecodeError:
        return f'{{"base64": "{b64encode(value).decode()}"}}'


def _parts(text: str, what: str) -> Iterator[tuple[bytes, str]]:
    """Split a format into pairs: a literal and "", or "" and a placeholder's letter."""
    for code, escape, placeholder, plain in map(re.Match.groups, _PART.finditer(text)):
        if code is not None:
            yield bytes([int(code, 16)]), ""
        elif escape is not None:
            if escape not in _ESCAPES:
                raise UserError(
                    f"{what} {text}: \\{escape} is not an escape; use \\n \\t \\r \\0 \\xHH, or \\\\ for a backslash"
                )
            yield _ESCAPES[escape], ""
        elif placeholder == "%":
            yield b"%", ""
        elif placeholder is not None:
            if placeholder not in _PLACEHOLDERS:
                known = " ".join(f"%{each}" for each in _PLACEHOLDERS)
                raise UserError(
                    f"{what} {text}: %{placeholder} is not a placeholder; choose one of {known}, or %% for a %"
                )
            yield b"", placeholder
        else:
            yield plain.encode(errors="surrogateescape"), ""


def _encoded(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _bytes_of(name: str, null: bytes) -> _Column:
    get = methodcaller(name)
    return lambda portion: [null if each is None else each for each in map(get, portion)]


def _sizes_of(name: str) -> _Column:
    get = methodcaller(name)
    return lambda portion: [-1 if each is None else len(each) for each in map(get, portion)]


def _number_of(name: str) -> _Column:
    get = methodcaller(name)
    return lambda portion: map(get, portion)


def _timestamps(portion: Sequence[Message]) -> Iterable[int]:
    return [
        -1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp
        for kind, timestamp in map(Message.timestamp, portion)
    ]


def _topics(portion: Sequence[Message]) -> Iterable[bytes]:
    return [(each.topic() or "").encode() for each in portion]


def _headers(portion: Sequence[Any]) -> Iterable[bytes]:
    """Render headers as kcat does: NAME=VALUE,NAME=VALUE, with NULL for a null value."""
    return [
        b",".join(
            name.encode() + b"=" + (b"NULL" if value is None else _encoded(value) or b"")
            for name, value in each.headers() or ()
        )
        for each in portion
    ]


def _packed_sizes(portion: Sequence[Message]) -> Iterable[bytes]:
    return [_SIZE.pack(size) for size in _sizes_of("value")(portion)]


def _always(column: _Column) -> Callable[[bytes], _Column]:
    """Return a function that ignores the text for null, which `column` does not need."""
    return lambda _: column


#: kcat's placeholder → its code in a %-template, and the function that returns its column, given the text for null.
_PLACEHOLDERS: Final[dict[str, tuple[bytes, Callable[[bytes], _Column]]]] = {
    "t": (b"%b", _always(_topics)),
    "p": (b"%d", _always(_number_of("partition"))),
    "o": (b"%d", _always(_number_of("offset"))),
    "k": (b"%b", partial(_bytes_of, "key")),
    "s": (b"%b", partial(_bytes_of, "value")),
    "K": (b"%d", _always(_sizes_of("key"))),
    "S": (b"%d", _always(_sizes_of("value"))),
    "R": (b"%b", _always(_packed_sizes)),
    "T": (b"%d", _always(_timestamps)),
    "h": (b"%b", _always(_headers)),
}
