"""A user's schema, and the decoder for byte strings that match it.

A `Node` describes what values become: their Arrow type, and a function that converts a decoded value to one that
pyarrow accepts for that type (None if no conversion is needed). Values for which there is no Arrow type become JSON
text.
"""

import base64
import datetime
import decimal
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from lacuna.pipeline.export.typed.registry import PREFIX, Registry, schema_id_of

SchemaKind: TypeAlias = Literal["json", "avro", "protobuf"]
Convert: TypeAlias = Callable[[Any], Any]


class Node(NamedTuple):
    """An Arrow type, and the function that converts values to it, which is never called with None."""

    type: pa.DataType
    convert: Convert | None = None


class Undecodable(NamedTuple):
    """A byte string that does not match the schema. `row` is its index in the column."""

    row: int
    reason: str


class NotOfSchemaError(ValueError):
    """A byte string does not match the schema. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class TypedSchema:
    """A schema. Can be pickled.

    `document` is its JSON text or, for Protobuf, a serialized FileDescriptorSet that contains `message`. With
    `has_prefix`, each value begins with Confluent's five bytes. With `registry`, these identify the schema with which
    the value was written, while this schema only determines the columns.
    """

    kind: SchemaKind
    document: bytes
    message: str = ""
    has_prefix: bool = False
    registry: Registry | None = None


class Decoder:
    def __init__(self, node: Node, decode: Convert, *, has_prefix: bool = False) -> None:
        self.node = node
        self.type = node.type
        self._convert = node.convert or (lambda value: value)
        #: Decodes one byte string, to a value not yet converted for Arrow. Raises NotOfSchemaError.
        self.value = decode
        self._has_prefix = has_prefix

    def decode_all(self, column: pa.Array) -> tuple[pa.Array, list[Undecodable]]:
        """Decodes a column. Nulls, and values that do not match the schema, become null; the latter are also listed."""
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
        """Converts values one by one, and replaces those that Arrow does not accept with null."""
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
            if schema_id_of(data) is None:
                raise NotOfSchemaError("Confluent's prefix (a 0 byte and a schema id) is missing")
            data = data[PREFIX:]
        value = self.value(data)
        return None if value is None else self._convert(value)


@lru_cache(maxsize=128)
def decoder_of(schema: TypedSchema) -> Decoder:
    """Returns a cached decoder, importing only the library it needs. Raises PipelineError for an invalid schema."""
    if schema.registry is not None:
        from lacuna.pipeline.export.typed.resolving import resolving_decoder

        return resolving_decoder(schema, schema.registry)
    if schema.kind == "json":
        from lacuna.pipeline.export.typed.json_schema import json_decoder

        return json_decoder(schema)
    if schema.kind == "avro":
        from lacuna.pipeline.export.typed.avro import avro_decoder

        return avro_decoder(schema)
    from lacuna.pipeline.export.typed.protobuf import protobuf_decoder

    return protobuf_decoder(schema)


def json_text(value: Any) -> str:
    """Returns JSON text for a value, with bytes in base64 and times in ISO 8601. Raises NotOfSchemaError."""
    try:
        return json.dumps(value, default=_jsonable, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise NotOfSchemaError("it is nested too deeply") from error


JSON_TEXT: Final = Node(pa.string(), json_text)


def optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def list_node(item: Node) -> Node:
    if item.convert is None:
        return Node(pa.list_(item.type))
    convert = optional(item.convert)
    return Node(pa.list_(item.type), lambda value: [convert(each) for each in value])


def map_node(item: Node) -> Node:
    """Returns the node for dicts as maps from strings to `item`."""
    convert = optional(item.convert) if item.convert else lambda value: value
    return Node(
        pa.map_(pa.string(), item.type),
        lambda value: [(key, convert(each)) for key, each in value.items()],
    )


def struct_node(fields: dict[str, Node]) -> Node:
    """Returns the node for dicts as structs, or as JSON text if there are no fields. Unknown keys are ignored."""
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
    raise NotOfSchemaError(f"a {type(value).__name__} cannot be written as JSON")
