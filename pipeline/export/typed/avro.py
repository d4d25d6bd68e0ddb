"""Avro values, each one datum by the schema that it was written with; through fastavro.

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
from typing import Any, Final

import fastavro
import fastavro._read_py as in_python
import fastavro.schema
import pyarrow as pa

from pipeline.errors import PipelineError
from pipeline.export.typed.schema import (
    JSON_TEXT,
    Decoder,
    Node,
    NotOfSchemaError,
    TypedSchema,
    list_node,
    map_node,
    struct_node,
)

#: fastavro's compiled reader does not bound its depth: a value of a recursive schema may overflow its stack, and
#: end the process. One so small cannot, since a level takes a byte at least; larger ones go to its reader in Python.
_CANNOT_BE_TOO_DEEP: Final = 2_000
#: Of a decimal, in Parquet's readers and in Iceberg.
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
    """Raises PipelineError for what is no Avro schema, and for one whose values nothing bounds."""
    try:
        names: dict[str, Any] = {}
        parsed = fastavro.parse_schema(json.loads(schema.document), names)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise PipelineError(f"the Avro schema is not valid: {error}") from error
    _check_sizes(parsed, names, set())
    is_recursive = _is_recursive(parsed, names, (), set())

    def decode(data: bytes) -> Any:
        source = io.BytesIO(data)
        may_be_deep = is_recursive and len(data) > _CANNOT_BE_TOO_DEEP
        read = in_python.schemaless_reader if may_be_deep else fastavro.schemaless_reader
        try:
            value = read(source, parsed, None)
        except RecursionError as error:
            raise NotOfSchemaError("it nests too deeply") from error
        except (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise NotOfSchemaError(
                f"it is not of the Avro schema ({str(error) or 'it ends early'})"
            ) from error
        if left := len(data) - source.tell():
            raise NotOfSchemaError(f"{left} bytes are left behind what the Avro schema says")
        return value

    return Decoder(_node_of(parsed, names, ()), decode, has_prefix=schema.has_prefix)


def _is_recursive(
    schema: Any, names: dict[str, Any], path: tuple[str, ...], known: set[str]
) -> bool:
    """Whether a type holds itself. `known` are those that do not."""
    if isinstance(schema, list):
        return any(_is_recursive(each, names, path, known) for each in schema)
    if isinstance(schema, str):
        if schema in path:
            return True
        return schema in names.keys() - known and _is_recursive(names[schema], names, path, known)
    kind = schema["type"]
    if kind not in ("record", "error"):
        inner = schema.get("items", schema.get("values", kind))
        return _is_recursive(inner, names, path, known)
    inside = (*path, schema["name"])
    if any(_is_recursive(field["type"], names, inside, known) for field in schema["fields"]):
        return True
    known.add(schema["name"])
    return False


def _check_sizes(schema: Any, names: dict[str, Any], known: set[str]) -> None:
    """Raises PipelineError where a value may be without end, however few its bytes are: fastavro would build
    it. `known` are names that were looked at.
    """
    if isinstance(schema, list):
        for each in schema:
            _check_sizes(each, names, known)
        return
    if isinstance(schema, str):
        if schema in names.keys() - known:
            _check_sizes(names[schema], names, known)
        return
    kind = schema["type"]
    if kind in ("record", "error"):
        known.add(schema["name"])
        _is_weightless(schema, names, ())
        for field in schema["fields"]:
            _check_sizes(field["type"], names, known)
        return
    if kind == "array" and _is_weightless(schema["items"], names, ()):
        raise PipelineError(
            "the Avro schema has an array whose items take no bytes, such as null: a value of ten bytes may "
            "have more of them than fit any memory; leave the schema away, and the values stay bytes"
        )
    _check_sizes(schema.get("items", schema.get("values", kind)), names, known)


def _is_weightless(schema: Any, names: dict[str, Any], path: tuple[str, ...]) -> bool:
    """Whether its values take no bytes. `path` are the records on the way."""
    if isinstance(schema, list):
        return False  # which of them it is takes a byte
    if isinstance(schema, str):
        if schema in path:
            raise PipelineError(
                f"the Avro schema is not valid: {schema} holds itself, without a union, an array or a map between"
            )
        return schema == "null" or (schema in names and _is_weightless(names[schema], names, path))
    kind = schema["type"]
    if kind in ("record", "error"):
        inner = (*path, schema["name"])
        each = [_is_weightless(field["type"], names, inner) for field in schema["fields"]]
        return all(each)
    if kind == "fixed":
        return bool(schema["size"] == 0)
    return kind not in ("array", "map", "enum") and _is_weightless(kind, names, path)


def _node_of(schema: Any, names: dict[str, Any], path: tuple[str, ...]) -> Node:
    """`names` are the types that a name stands for, `path` the names on the way."""
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
