"""Decodes keys and values with schemas from a registry: Avro, Protobuf and JSON Schema."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from google.protobuf import descriptor_pb2, json_format
from google.protobuf.message import DecodeError, Message

from lacuna.base.errors import UserError
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.typed.registry import PREFIX, Registered, Registry
from lacuna.pipeline.export.typed.registry import schema_id_of as schema_id_of

#: The maximum number of schemas that are kept, and of schemas that one page fetches.
_MOST: Final = 128
_AT_ONCE: Final = 16
#: How long to wait after a failed fetch before the next attempt.
_AGAIN_SECONDS: Final = 30.0
_KINDS: Final = {"avro": "Avro", "protobuf": "Protobuf", "json": "JSON Schema"}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's kind in words, and a function that decodes the bytes after the prefix to JSON text."""

    kind: str
    decode: Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    until: float


class Decoding:
    """A cache, bounded in size, of the registry's schemas that records have needed."""

    def __init__(
        self, url: str, seconds: Callable[[], float], credentials: bytes | None = None
    ) -> None:
        """`url` is the registry's address; `credentials` is USER:PASSWORD. Raises UserError."""
        self._registry = Registry(url, credentials)
        self._seconds = seconds
        self._known: OrderedDict[int, Schema | _Failure] = OrderedDict()

    async def prepare(self, ids: Iterable[int]) -> None:
        """Fetch unknown schemas, up to a limit."""
        missing = [each for each in dict.fromkeys(ids) if not self._is_known(each)]
        found = await asyncio.gather(
            *(asyncio.to_thread(self._made, each) for each in missing[:_AT_ONCE])
        )
        self._known.update(zip(missing, found, strict=False))
        while len(self._known) > _MOST:
            self._known.popitem(last=False)

    def _is_known(self, schema_id: int) -> bool:
        known = self._known.get(schema_id)
        return known is not None and not (
            isinstance(known, _Failure) and self._seconds() > known.until
        )

    def decode(self, data: bytes) -> tuple[str, str] | None:
        """Return JSON text and a description of the schema, or None if the bytes have no schema or do not match it."""
        schema_id = schema_id_of(data)
        schema = None if schema_id is None else self._known.get(schema_id)
        if not isinstance(schema, Schema):
            return None
        try:
            return schema.decode(data[PREFIX:]), f"{schema.kind}, schema {schema_id}"
        except (ValueError, UserError, DecodeError, json_format.Error, RecursionError):
            return None

    def why_not(self, data: bytes | None) -> str:
        """Return why the schema for these bytes could not be used, or "" if there was no such problem."""
        schema_id = schema_id_of(data)
        known = None if schema_id is None else self._known.get(schema_id)
        return known.reason if isinstance(known, _Failure) else ""

    def _made(self, schema_id: int) -> Schema | _Failure:
        try:
            found = self._registry.by_id(schema_id)
            return Schema(_KINDS[found.kind], _decode_of(found))
        except ModuleNotFoundError as error:
            reason = f"needs the Python package {error.name}: pip install 'lacuna-log[export]'"
        except (UserError, PipelineError) as error:
            reason = str(error)
        return _Failure(f"schema {schema_id}: {reason}", self._seconds() + _AGAIN_SECONDS)


def _decode_of(found: Registered) -> Callable[[bytes], str]:
    if found.kind == "json":
        return _of_json
    return _of_avro(found.document) if found.kind == "avro" else _of_protobuf(found.document)


def _of_json(data: bytes) -> str:
    return json.dumps(json.loads(data), ensure_ascii=False)


def _of_avro(document: bytes) -> Callable[[bytes], str]:
    from lacuna.pipeline.export.typed.schema import TypedSchema, decoder_of, json_text

    decoder = decoder_of(TypedSchema("avro", document))
    return lambda data: json_text(decoder.value(data))


def _of_protobuf(document: bytes) -> Callable[[bytes], str]:
    from lacuna.pipeline.export.typed.protobuf import message_at
    from lacuna.pipeline.export.typed.schema import TypedSchema, decoder_of

    files = descriptor_pb2.FileDescriptorSet.FromString(document)

    def decode(data: bytes) -> str:
        name, rest = message_at(files.file[-1], data)
        message: Message = decoder_of(TypedSchema("protobuf", document, name)).value(rest)
        return json_format.MessageToJson(
            message, preserving_proto_field_name=True, ensure_ascii=False
        )

    return decode
