"""Decodes values that were written with different schemas from a registry, and resolves them to a column's schema.

| format | a value of an older or newer schema |
|---|---|
| Avro | is resolved according to Avro's rules: fields by name and alias, defaults, promotions |
| Protobuf | is read with the column's message of the same name; unknown fields are left out |
| JSON Schema | is validated against its own schema; properties that it lacks are null |
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NoReturn

from google.protobuf import descriptor_pb2

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.typed.registry import (
    PREFIX,
    NoSchema,
    Registered,
    Registry,
    RegistryUnavailable,
    schema_id_of,
)
from lacuna.pipeline.export.typed.schema import (
    Convert,
    Decoder,
    Node,
    NotOfSchemaError,
    TypedSchema,
    decoder_of,
)

#: The maximum number of schemas that a decoder caches.
_MOST: Final = 1_000


def resolving_decoder(schema: TypedSchema, registry: Registry) -> Decoder:
    """Returns the decoder for a column. It raises RegistryUnavailable, and NotOfSchemaError for an unusable schema."""
    column = replace(schema, registry=None, has_prefix=False)
    own = decoder_of(column)

    @lru_cache(maxsize=_MOST)
    def reader_of(schema_id: int) -> Convert:
        try:
            return _reader(registry.by_id(schema_id), column, own)
        except RegistryUnavailable:
            raise
        except (NoSchema, PipelineError) as error:
            return _always(f"schema {schema_id}: {error}")

    def decode(data: bytes) -> Any:
        schema_id = schema_id_of(data)
        if schema_id is None:
            raise NotOfSchemaError("Confluent's prefix (a 0 byte and a schema id) is missing")
        return reader_of(schema_id)(data[PREFIX:])

    return Decoder(Node(own.type, own.node.convert and _fitting(own.node.convert)), decode)


def _fitting(convert: Convert) -> Convert:
    """Makes a conversion raise NotOfSchemaError if its result does not have the column's type."""

    def fit(value: Any) -> Any:
        try:
            return convert(value)
        except NotOfSchemaError:
            raise
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise NotOfSchemaError(f"it does not fit the newest schema ({error})") from error

    return fit


def _always(reason: str) -> Convert:
    def fail(_: bytes) -> NoReturn:
        raise NotOfSchemaError(reason)

    return fail


def _reader(found: Registered, column: TypedSchema, own: Decoder) -> Convert:
    """Returns a function that reads a schema's values as values of the column."""
    if found.kind != column.kind:
        raise NoSchema(
            f"it is of kind {found.kind}, but the newest schema is of kind {column.kind}"
        )
    if found.kind == "protobuf":
        return _message_reader(found.document, column, own)
    if found.document == column.document:
        return own.value
    if found.kind == "json":
        return decoder_of(TypedSchema("json", found.document)).value
    from lacuna.pipeline.export.typed.avro import avro_reader

    return avro_reader(found.document, column.document)


def _message_reader(document: bytes, column: TypedSchema, own: Decoder) -> Callable[[bytes], Any]:
    from lacuna.pipeline.export.typed.protobuf import message_at

    file = descriptor_pb2.FileDescriptorSet.FromString(document).file[-1]

    def read(data: bytes) -> Any:
        name, rest = message_at(file, data)
        if name != column.message:
            raise NotOfSchemaError(f"it is a {name}, not a {column.message}")
        return own.value(rest)

    return read
