"""A schema that a user named, and what it makes of byte strings.

A `Node` says what one value of the schema becomes: an Arrow type, and how a decoded value is brought into
what pyarrow takes for that type (None: it is that already). What no Arrow type fits becomes JSON text.
"""

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

SchemaKind: TypeAlias = Literal["json", "avro", "protobuf"]
Convert: TypeAlias = Callable[[Any], Any]

CONFLUENT_MAGIC: Final = 0
CONFLUENT_BYTES: Final = 5


class Node(NamedTuple):
    """An Arrow type, and how a value becomes one of it; `convert` is never given None."""

    type: pa.DataType
    convert: Convert | None = None


class Undecodable(NamedTuple):
    """A byte string that the schema does not fit; `row` counts in its batch."""

    row: int
    reason: str


class NotOfSchemaError(ValueError):
    """One byte string that the schema does not fit; the message says why."""


@dataclass(frozen=True, slots=True)
class TypedSchema:
    """A schema; can be pickled. `document` is the JSON text, or for Protobuf a FileDescriptorSet of which
    `message` names the message. `has_prefix`: Confluent's five bytes stand before each value.
    """

    kind: SchemaKind
    document: bytes
    message: str = ""
    has_prefix: bool = False


class Decoder:
    """Decodes byte strings to values of `type`."""

    def __init__(self, node: Node, decode: Convert, *, has_prefix: bool) -> None:
        self.type = node.type
        self._convert = node.convert or (lambda value: value)
        self._decode = decode
        self._has_prefix = has_prefix

    def decode_all(self, column: pa.Array) -> tuple[pa.Array, list[Undecodable]]:
        """One value a row; null for null, and for what does not fit, which is listed."""
        values: list[Any] = []
        failures: list[Undecodable] = []
        for row, data in enumerate(column.to_pylist()):
            try:
                values.append(None if data is None else self._one(data))
            except NotOfSchemaError as error:
                values.append(None)
                failures.append(Undecodable(row, str(error)))
        try:
            return pa.array(values, self.type), failures
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return self._each(values, failures)

    def _each(
        self, values: list[Any], failures: list[Undecodable]
    ) -> tuple[pa.Array, list[Undecodable]]:
        """Finds the values that Arrow does not take."""
        for row, value in enumerate(values):
            try:
                pa.array([value], self.type)
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                values[row] = None
                failures.append(Undecodable(row, f"it does not fit {self.type}: {error}"))
        failures.sort()
        return pa.array(values, self.type), failures

    def _one(self, data: bytes) -> Any:
        if self._has_prefix:
            if len(data) < CONFLUENT_BYTES or data[0] != CONFLUENT_MAGIC:
                raise NotOfSchemaError("Confluent's prefix (a 0 byte and a schema id) is missing")
            data = data[CONFLUENT_BYTES:]
        value = self._decode(data)
        return None if value is None else self._convert(value)


def json_text(value: Any) -> str:
    """What no Arrow type fits, as JSON: bytes in base64, times in ISO 8601."""
    try:
        return json.dumps(value, default=_jsonable, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise NotOfSchemaError("it nests too deeply") from error


JSON_TEXT: Final = Node(pa.string(), json_text)


def optional(convert: Convert) -> Convert:
    """None stays None."""
    return lambda value: None if value is None else convert(value)


def list_node(item: Node) -> Node:
    """A list of `item`."""
    if item.convert is None:
        return Node(pa.list_(item.type))
    convert = optional(item.convert)
    return Node(pa.list_(item.type), lambda value: [convert(each) for each in value])


def map_node(item: Node) -> Node:
    """A map from strings to `item`, from a dict."""
    convert = optional(item.convert) if item.convert else lambda value: value
    return Node(
        pa.map_(pa.string(), item.type),
        lambda value: [(key, convert(each)) for key, each in value.items()],
    )


def struct_node(fields: dict[str, Node]) -> Node:
    """A struct, from a dict; names that it does not have are left out. JSON text where there is none."""
    if not fields:
        return JSON_TEXT
    kind = pa.struct([pa.field(name, node.type) for name, node in fields.items()])
    converts = [
        (name, optional(node.convert) if node.convert else None) for name, node in fields.items()
    ]

    def convert(value: Any) -> Any:
        return {
            name: value.get(name) if change is None else change(value.get(name))
            for name, change in converts
        }

    return Node(kind, convert)


def _jsonable(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    raise NotOfSchemaError(f"a {type(value).__name__} has no form in JSON")
