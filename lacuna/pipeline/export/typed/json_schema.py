"""Validates JSON values against a JSON Schema (draft 4 to 2020-12), and converts them to the types that it specifies.

| schema | column |
|---|---|
| object with properties | struct of these properties (others are left out) |
| object with only additionalProperties | map<string, …> |
| array with items | list |
| integer, number, boolean, string | int64, double, bool, string |
| string of format date-time, date | timestamp (UTC), date |
| X or null | X |
| anything else: several types, tuples, recursion | its JSON text |
"""

import datetime
import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import jsonschema.validators
import pyarrow as pa
import referencing.exceptions

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.typed.schema import (
    JSON_TEXT,
    Decoder,
    Node,
    NotOfSchemaError,
    TypedSchema,
    list_node,
    map_node,
    struct_node,
)

_MAX_DEPTH = 100


def json_decoder(schema: TypedSchema) -> Decoder:
    """Returns the decoder for a JSON Schema. Raises PipelineError if the schema is invalid."""
    document = _parse(schema.document)
    kind = jsonschema.validators.validator_for(document, jsonschema.Draft202012Validator)
    try:
        kind.check_schema(document)
    except jsonschema.SchemaError as error:
        raise PipelineError(f"the JSON Schema is not valid: {error.message}") from error
    validator = kind(document)

    def decode(data: bytes) -> Any:
        try:
            value = json.loads(data, parse_constant=_no_constant)
            failure = next(validator.iter_errors(value), None)
        except (ValueError, RecursionError, OverflowError) as error:
            raise NotOfSchemaError(f"it is not valid JSON ({error})") from error
        except referencing.exceptions.Unresolvable as error:
            raise PipelineError(
                f"the JSON Schema refers to a definition that it does not contain: {error}"
            ) from error
        if failure is not None:
            raise NotOfSchemaError(f"{failure.json_path}: {_short(failure.message)}")
        return value

    return Decoder(node_of(document, document, ("#",)), decode, has_prefix=schema.has_prefix)


def node_of(schema: Any, document: Any, path: tuple[str, ...]) -> Node:
    """Returns the column for a schema within `document`. `path` contains the references that led to the schema."""
    if not isinstance(schema, Mapping) or len(path) > _MAX_DEPTH:
        return JSON_TEXT
    if "$ref" in schema:
        reference = schema["$ref"]
        if reference in path:
            return JSON_TEXT
        return node_of(_resolve(reference, document), document, (*path, reference))
    if "allOf" in schema:
        return node_of(_merge(schema, document), document, path)
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            some = [each for each in schema[choice] if each != {"type": "null"}]
            return node_of(some[0], document, path) if len(some) == 1 else JSON_TEXT
    return _node_of_type(_type_of(schema), schema, document, path)


def _node_of_type(name: str, schema: Any, document: Any, path: tuple[str, ...]) -> Node:
    if name == "object" and schema.get("properties"):
        properties = schema["properties"].items()
        return struct_node({key: node_of(each, document, path) for key, each in properties})
    if name == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return map_node(node_of(schema["additionalProperties"], document, path))
    if name == "array" and isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
        return list_node(node_of(schema["items"], document, path))
    if name == "integer":
        return Node(pa.int64(), int)
    if name == "number":
        return Node(pa.float64(), _float)
    if name == "boolean":
        return Node(pa.bool_())
    if name == "string":
        formats = {
            "date-time": Node(pa.timestamp("us", tz="UTC"), _instant),
            "date": Node(pa.date32(), _date),
        }
        return formats.get(schema.get("format"), Node(pa.string()))
    return JSON_TEXT


def _type_of(schema: Any) -> str:
    """Returns the single type of the schema's non-null values, or "" if there may be several."""
    types = schema.get("type")
    if types is None:
        values = [schema["const"]] if "const" in schema else schema.get("enum", [])
        if not values and "properties" in schema:
            return "object"
        types = list(dict.fromkeys(_json_type(value) for value in values))
    names = {types} if isinstance(types, str) else set(types) - {"null"}
    if names == {"integer", "number"}:
        return "number"
    return str(names.pop()) if len(names) == 1 else ""


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "object" if isinstance(value, dict) else "array"


def _merge(schema: Any, document: Any) -> Any:
    """Merges a schema with its `allOf` parts: keeps all properties, and the first occurrence of any other keyword."""
    parts: list[Mapping[str, Any]] = [
        {key: value for key, value in schema.items() if key != "allOf"}
    ]
    parts += [
        _resolve(part["$ref"], document) if "$ref" in part else part
        for part in schema["allOf"]
        if isinstance(part, Mapping)
    ]
    merged: dict[str, Any] = {}
    for part in parts:
        properties = {**merged.get("properties", {}), **part.get("properties", {})}
        merged = {**part, **merged, **({"properties": properties} if properties else {})}
    return merged


def _resolve(reference: str, document: Any) -> Any:
    if reference != "#" and not reference.startswith("#/"):
        raise PipelineError(
            f"the JSON Schema refers to {reference!r}, but only references within the file are "
            "followed"
        )
    found = document
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise PipelineError(
                f"the JSON Schema refers to {reference!r}, which does not exist in it"
            ) from None
    return found


def _parse(document: bytes) -> Any:
    try:
        return json.loads(document)
    except ValueError as error:
        raise PipelineError(f"the JSON Schema is not valid JSON: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _short(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:100]} … {message[-100:]}"


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise NotOfSchemaError(f"{value} is too large for a double") from error


def _instant(text: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise NotOfSchemaError(f"{text!r} is not a date-time") from error
    if found.tzinfo is None:
        raise NotOfSchemaError(f"{text!r} is not a date-time: its offset from UTC is missing")
    return found


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise NotOfSchemaError(f"{text!r} is not a date") from error
