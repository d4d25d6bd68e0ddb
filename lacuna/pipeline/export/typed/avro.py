"""Decodes Avro values with fastavro. Each value is a single datum, written with the given schema.

| schema | column |
|---|---|
| record, map, array | struct, map<string, …>, list |
| int, long, float, double, boolean, string, bytes, fixed | int32, int64, float, double, bool, string, binary |
| enum, uuid | string |
| date, time-millis, time-micros | date, time |
| timestamp-millis, -micros; local-timestamp-… | timestamp (UTC); timestamp without a zone |
| decimal | decimal; text beyond 38 digits |
| union of null and X | X |
| other unions, recursion | its JSON text |
"""

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import fastavro
import fastavro.schema
import pyarrow as pa

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.typed.schema import (
    JSON_TEXT,
    Convert,
    Decoder,
    Node,
    NotOfSchemaError,
    TypedSchema,
    list_node,
    map_node,
    struct_node,
)

#: The maximum nesting depth. fastavro's compiled reader has no limit, and would overflow the stack.
MOST_LEVELS: Final = 500
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = ("int", "long", "enum")
#: The maximum number of digits of a decimal in Parquet readers and in Iceberg.
_MOST_DIGITS: Final = 38
_PLAIN: Final = {
    "int": Node(pa.int32()),
    "long": Node(pa.int64()),
    "float": Node(pa.float32()),
    "double": Node(pa.float64()),
    "boolean": Node(pa.bool_()),
    "string": Node(pa.string()),
    "bytes": Node(pa.binary()),
    "fixed": Node(pa.binary()),
    "enum": Node(pa.string()),
}
_LOGICAL: Final = {
    ("int", "date"): Node(pa.date32()),
    ("int", "time-millis"): Node(pa.time64("us")),
    ("long", "time-micros"): Node(pa.time64("us")),
    ("long", "timestamp-millis"): Node(pa.timestamp("us", tz="UTC")),
    ("long", "timestamp-micros"): Node(pa.timestamp("us", tz="UTC")),
    ("long", "local-timestamp-millis"): Node(pa.timestamp("us")),
    ("long", "local-timestamp-micros"): Node(pa.timestamp("us")),
    ("string", "uuid"): Node(pa.string(), str),
}


def avro_decoder(schema: TypedSchema) -> Decoder:
    """Returns the decoder for an Avro schema. Raises PipelineError if it is invalid or its values are unbounded."""
    parsed, names = _parse(schema.document)
    decode = avro_reader(schema.document)
    return Decoder(_node_of(parsed, names, ()), decode, has_prefix=schema.has_prefix)


def avro_reader(document: bytes, resolved: bytes | None = None) -> Convert:
    """Returns a function that reads a schema's values and, if `resolved` is given, resolves them to that schema.

    Raises PipelineError if a schema is invalid or its values are unbounded; the function raises NotOfSchemaError.
    """
    parsed, names = _parse(document)
    wanted = None if resolved is None else _parse(resolved)[0]
    is_recursive = _is_recursive(parsed)

    def decode(data: bytes) -> Any:
        source = io.BytesIO(data)
        try:
            if is_recursive and len(data) > MOST_LEVELS:  # each level takes at least one byte
                check_depth(data, parsed, names)
            value = fastavro.schemaless_reader(source, parsed, wanted)
        except NotOfSchemaError:
            raise
        except fastavro.read.SchemaResolutionError as error:
            raise NotOfSchemaError(
                f"its schema does not resolve to the newest one: {error}"
            ) from error
        except (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise NotOfSchemaError(
                f"it does not match the Avro schema ({str(error) or 'it ends early'})"
            ) from error
        if left := len(data) - source.tell():
            raise NotOfSchemaError(
                f"{left} bytes remain after the value described by the Avro schema"
            )
        return value

    return decode


def _parse(document: bytes) -> tuple[Any, dict[str, Any]]:
    try:
        names: dict[str, Any] = {}
        parsed = fastavro.parse_schema(json.loads(document), names)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise PipelineError(f"the Avro schema is not valid: {error}") from error
    _check_sizes(parsed, names)
    return parsed, names


def _types(schema: Any) -> Iterator[Any]:
    """Yields a type and all types within it. A type that is referred to by name appears as that name."""
    left = [schema]
    while left:
        each = left.pop()
        yield each
        left += _inner(each)


def _inner(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return schema
    if isinstance(schema, str):
        return []
    if schema["type"] in ("record", "error"):
        return [field["type"] for field in schema["fields"]]
    return [schema.get("items", schema.get("values", schema["type"]))]


def _is_recursive(schema: Any) -> bool:
    """Whether a type contains itself, which means that a record refers to itself by name."""
    left: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    while left:
        each, enclosing = left.pop()
        if isinstance(each, str) and each in enclosing:
            return True
        if isinstance(each, dict) and each["type"] in ("record", "error"):
            enclosing |= {each["name"]}
        left += [(one, enclosing) for one in _inner(each)]
    return False


def _check_sizes(parsed: Any, names: dict[str, Any]) -> None:
    """Raises PipelineError if a few bytes may encode a value of any size, which fastavro would build in memory."""
    known: dict[str, bool] = {}
    for each in _types(parsed):
        kind = each["type"] if isinstance(each, dict) else ""
        if kind in ("record", "error"):
            _is_weightless(each, names, (), known)
        elif kind == "array" and _is_weightless(each["items"], names, (), known):
            raise PipelineError(
                "the Avro schema has an array whose items take no bytes, such as null, so a value of "
                "ten bytes could hold more items than fit in memory: omit the schema to keep the values as bytes"
            )


def _is_weightless(
    schema: Any, names: dict[str, Any], path: tuple[str, ...], known: dict[str, bool]
) -> bool:
    """Whether values of this type take no bytes. `path` contains the names of the enclosing records.

    `known` caches the results for records, since examining a record wherever it is used could take forever.
    """
    if isinstance(schema, list):
        return False  # the index of the branch takes a byte
    if isinstance(schema, str):
        if schema in path:
            raise PipelineError(
                f"the Avro schema is not valid: {schema} contains itself without a union, an array or a map in between"
            )
        return schema == "null" or (
            schema in names and _is_weightless(names[schema], names, path, known)
        )
    kind = schema["type"]
    if kind in ("record", "error"):
        name = schema["name"]
        if name not in known:
            inner = (*path, name)
            each = [
                _is_weightless(field["type"], names, inner, known) for field in schema["fields"]
            ]
            known[name] = all(each)
        return known[name]
    if kind == "fixed":
        return bool(schema["size"] == 0)
    return kind not in ("array", "map", "enum") and _is_weightless(kind, names, path, known)


def _node_of(schema: Any, names: dict[str, Any], path: tuple[str, ...]) -> Node:
    """Returns the column for a type. `names` contains named types; `path` contains the enclosing records' names."""
    if isinstance(schema, list):
        some = [each for each in schema if each != "null"]
        return _node_of(some[0], names, path) if len(some) == 1 else JSON_TEXT
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if schema not in names:
            return JSON_TEXT
        return JSON_TEXT if schema in path else _node_of(names[schema], names, path)
    kind = schema["type"]
    if kind in ("record", "error"):
        inner = (*path, schema["name"])
        fields = {
            field["name"]: _node_of(field["type"], names, inner) for field in schema["fields"]
        }
        return struct_node(fields)
    if kind == "array":
        return list_node(_node_of(schema["items"], names, path))
    if kind == "map":
        return map_node(_node_of(schema["values"], names, path))
    return _plain_node(schema, kind, names, path)


def _plain_node(schema: Any, kind: Any, names: dict[str, Any], path: tuple[str, ...]) -> Node:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        if schema["precision"] > _MOST_DIGITS:
            return Node(pa.string(), str)
        return Node(pa.decimal128(schema["precision"], schema.get("scale", 0)))
    if isinstance(kind, str) and (kind, logical) in _LOGICAL:
        return _LOGICAL[kind, logical]
    return _node_of(kind, names, path)


# How deeply a value nests.


def check_depth(data: bytes, schema: Any, names: Mapping[str, Any]) -> None:
    """Raises NotOfSchemaError if a value nests too deeply, and ValueError or IndexError if it exceeds `data`."""
    _Walk(data, names).value(schema, MOST_LEVELS)


class _Walk:
    def __init__(self, data: bytes, names: Mapping[str, Any]) -> None:
        self._data = data
        self._names = names
        self._at = 0

    def value(self, schema: Any, levels: int) -> None:
        """Skips a value of this type, which may be nested up to `levels` deep."""
        if not levels:
            raise NotOfSchemaError("it is nested too deeply")
        if isinstance(schema, list):
            self.value(schema[self._long()], levels - 1)
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("record", "error"):
            for field in schema["fields"]:
                self.value(field["type"], levels - 1)
        elif kind == "array":
            self._items(schema["items"], levels - 1)
        elif kind == "map":
            self._items(schema["values"], levels - 1, has_keys=True)
        elif (
            not isinstance(kind, str) or kind in self._names
        ):  # the type is nested in "type", or is a name
            self.value(self._names[kind] if isinstance(kind, str) else kind, levels - 1)
        else:
            self._leaf(kind, schema)

    def _leaf(self, kind: str, schema: Any) -> None:
        if kind in _VARINTS:
            self._long()
        elif kind in ("bytes", "string"):
            self._skip()
        else:
            self._at += schema["size"] if kind == "fixed" else _SIZES[kind]

    def _items(self, schema: Any, levels: int, *, has_keys: bool = False) -> None:
        while count := self._long():
            if count < 0:
                self._long()  # the size of the block
            for _ in range(abs(count)):
                if has_keys:
                    self._skip()
                self.value(schema, levels)

    def _skip(self) -> None:
        length = self._long()
        if length < 0:
            raise ValueError(f"a length of {length}")
        self._at += length

    def _long(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number >> 1 ^ -(number & 1)
        raise ValueError("a number longer than ten bytes")
