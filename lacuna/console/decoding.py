"""Decodes keys and values by a schema registry with Confluent's interface: Avro, Protobuf and JSON Schema.

Such bytes begin with a 0, and with the id of a schema in four bytes. A schema never changes, so it is fetched once.
"""

import asyncio
import base64
import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from google.protobuf import descriptor_pb2, json_format
from google.protobuf.message import DecodeError, Message

from lacuna.base.errors import UserError
from lacuna.pipeline.errors import PipelineError

_MAGIC: Final = 0
_PREFIX: Final = 5
#: Schemas that are kept, the schemas that one page fetches, and the bytes and the seconds of one.
_MOST: Final = 128
_AT_ONCE: Final = 16
_DOCUMENT_BYTES: Final = 1 << 20
_FETCH_SECONDS: Final = 3.0
#: References of a schema, counted over all levels.
_REFERENCES: Final = 50
#: A failure is not tried again for so long.
_AGAIN_SECONDS: Final = 30.0
_TYPES: Final = {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}


class NoSchema(UserError):
    """A schema cannot be fetched or used. The message has the reason."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A usable schema: its kind in words, and the function that decodes the bytes behind the prefix to JSON text."""

    kind: str
    decode: Callable[[bytes], str]


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    until: float


def schema_id_of(data: bytes | None) -> int | None:
    """Return the schema id with which bytes begin, or None."""
    if data is None or len(data) < _PREFIX or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:_PREFIX], "big")


class Decoding:
    """The schemas of a registry that records have needed so far. Their number is bounded."""

    def __init__(
        self, url: str, seconds: Callable[[], float], credentials: bytes | None = None
    ) -> None:
        """`url` is the registry's address, and `credentials` is USER:PASSWORD. Raises UserError."""
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise UserError(
                f"{url} is not the address of a schema registry: write http://HOST:PORT"
            )
        self._url = url.rstrip("/")
        self._headers = {"accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if credentials:
            token = base64.b64encode(credentials.strip()).decode()
            self._headers["authorization"] = f"Basic {token}"
        self._seconds = seconds
        self._known: OrderedDict[int, Schema | _Failure] = OrderedDict()

    async def prepare(self, ids: Iterable[int]) -> None:
        """Fetch schemas that are not known yet, a bounded number of them."""
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
        """Return bytes as JSON text, and the schema in words; None if they have no schema or do not match it."""
        schema_id = schema_id_of(data)
        schema = None if schema_id is None else self._known.get(schema_id)
        if not isinstance(schema, Schema):
            return None
        try:
            return schema.decode(data[_PREFIX:]), f"{schema.kind}, schema {schema_id}"
        except (ValueError, UserError, DecodeError, json_format.Error, RecursionError):
            return None

    def why_not(self, data: bytes | None) -> str:
        """Return why bytes with the id of a schema are not decoded; "" if there is no reason."""
        schema_id = schema_id_of(data)
        known = None if schema_id is None else self._known.get(schema_id)
        return known.reason if isinstance(known, _Failure) else ""

    def _made(self, schema_id: int) -> Schema | _Failure:
        try:
            return self._make(self._get(f"/schemas/ids/{schema_id}"), schema_id)
        except ModuleNotFoundError as error:
            reason = f"needs the Python package {error.name}: pip install 'lacuna-log[export]'"
        except (UserError, PipelineError) as error:
            reason = str(error)
        return _Failure(f"schema {schema_id}: {reason}", self._seconds() + _AGAIN_SECONDS)

    def _make(self, answer: Mapping[str, Any], schema_id: int) -> Schema:
        kind = str(answer.get("schemaType", "AVRO"))
        if kind == "AVRO":
            return Schema(_TYPES[kind], _of_avro(answer["schema"], self._references(answer, "")))
        if kind == "PROTOBUF":
            serialized = "?format=serialized"
            found = self._get(f"/schemas/ids/{schema_id}{serialized}")
            files = self._references(answer, serialized)
            return Schema(_TYPES[kind], _of_protobuf(found["schema"], files))
        if kind == "JSON":
            return Schema(_TYPES[kind], _of_json)
        raise NoSchema(f"its type {kind[:40]} is not known")

    def _references(self, answer: Mapping[str, Any], query: str) -> dict[str, str]:
        """Return the schemas that a schema refers to by name, those that others need first."""
        named: dict[str, str] = {}
        self._add_references(answer, query, named)
        return named

    def _add_references(self, answer: Mapping[str, Any], query: str, named: dict[str, str]) -> None:
        for each in answer.get("references") or ():
            name = str(each["name"])
            if name in named:
                continue
            if len(named) >= _REFERENCES:
                raise NoSchema(f"it refers to more than {_REFERENCES} schemas")
            path = (
                f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(each['version'])}"
            )
            found = self._get(f"{path}{query}")
            named[name] = ""  # so that a circle ends
            self._add_references(found, query, named)
            del named[name]
            named[name] = str(found["schema"])

    def _get(self, path: str) -> Mapping[str, Any]:
        """Return the registry's answer. Raises NoSchema."""
        try:
            request = Request(f"{self._url}{path}", headers=self._headers)  # noqa: S310 - checked above
            with urlopen(request, timeout=_FETCH_SECONDS) as answer:  # noqa: S310 - checked above
                body = answer.read(_DOCUMENT_BYTES + 1)
        except HTTPError as error:
            with error:
                raise NoSchema(f"the registry answers {error.code} for {path}") from error
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise NoSchema(f"the registry does not answer: {reason}") from error
        if len(body) > _DOCUMENT_BYTES:
            raise NoSchema("it is larger than 1 MiB")
        try:
            found = json.loads(body)
            if not isinstance(found, dict) or not isinstance(found["schema"], str):
                raise NoSchema("the registry's answer has no schema")
        except (ValueError, KeyError) as error:
            raise NoSchema("the registry's answer is not valid") from error
        return found


def _of_json(data: bytes) -> str:
    return json.dumps(json.loads(data), ensure_ascii=False)


def _of_avro(document: str, named: Mapping[str, str]) -> Callable[[bytes], str]:
    from lacuna.pipeline.export.typed.schema import TypedSchema, decoder_of, json_text

    try:
        definitions = {name: json.loads(text) for name, text in named.items()}
        whole = _with_definitions(json.loads(document), definitions, "")
    except ValueError as error:
        raise NoSchema("it is not valid JSON") from error
    decoder = decoder_of(TypedSchema("avro", json.dumps(whole).encode()))
    return lambda data: json_text(decoder.value(data))


def _with_definitions(schema: Any, definitions: dict[str, Any], namespace: str) -> Any:
    """Return an Avro schema in which the first use of each name from another schema is its definition."""
    if isinstance(schema, list):
        return [_with_definitions(each, definitions, namespace) for each in schema]
    if isinstance(schema, str):
        full = schema if schema in definitions else f"{namespace}.{schema}"
        if full not in definitions:
            return schema
        return _with_definitions(definitions.pop(full), definitions, "")
    if not isinstance(schema, dict):
        return schema
    inner = schema.get("namespace", namespace)
    changed = dict(schema)
    for key in ("type", "items", "values"):
        if key in schema:
            changed[key] = _with_definitions(schema[key], definitions, inner)
    if "fields" in schema:
        changed["fields"] = [
            _with_definitions(each, definitions, inner) for each in schema["fields"]
        ]
    return changed


def _of_protobuf(main: str, named: Mapping[str, str]) -> Callable[[bytes], str]:
    from lacuna.pipeline.export.typed.schema import TypedSchema, decoder_of

    files = _descriptors(main, named)
    document = files.SerializeToString()

    def decode(data: bytes) -> str:
        indexes, start = _indexes(data)
        name = _message_name(files.file[-1], indexes)
        message: Message = decoder_of(TypedSchema("protobuf", document, name)).value(data[start:])
        return json_format.MessageToJson(
            message, preserving_proto_field_name=True, ensure_ascii=False
        )

    return decode


def _descriptors(main: str, named: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    """Return the descriptors of a schema, the last file, and of the schemas that it refers to.

    A registry answers with serialized descriptors in base64, or with the source, which is then compiled.
    """
    try:
        parsed = {name: _serialized(text) for name, text in named.items()}
        own = _serialized(main)
    except (ValueError, DecodeError):
        return _compiled(main, named)
    for name, file in parsed.items():
        file.name = name
    own.name = own.name or "main.proto"
    return descriptor_pb2.FileDescriptorSet(file=[*_well_known(own, parsed), *parsed.values(), own])


def _serialized(text: str) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))


def _well_known(
    own: descriptor_pb2.FileDescriptorProto,
    parsed: Mapping[str, descriptor_pb2.FileDescriptorProto],
) -> list[descriptor_pb2.FileDescriptorProto]:
    """Return the files of Protobuf itself that schemas import, which a registry does not have."""
    from google.protobuf import descriptor_pool

    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def add(name: str) -> None:
        if name in parsed or name in found:
            return
        __import__(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
        file = descriptor_pb2.FileDescriptorProto()
        descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
        for each in file.dependency:
            add(each)
        found[name] = file

    for file in (own, *parsed.values()):
        for name in file.dependency:
            if name.startswith("google/protobuf/"):
                add(name)
    return list(found.values())


def _compiled(main: str, named: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    from lacuna.pipeline.export.typed.protobuf import compile_proto

    with tempfile.TemporaryDirectory(prefix="lacuna-") as folder:
        root = Path(folder).resolve()
        for name, text in (*named.items(), ("main.proto", main)):
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise NoSchema(f"it refers to {name[:80]!r}, which is not the name of a schema")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return descriptor_pb2.FileDescriptorSet.FromString(compile_proto(root / "main.proto"))


def _message_name(file: descriptor_pb2.FileDescriptorProto, indexes: Iterable[int]) -> str:
    """Return the full name of a message by its index in the file, then in that message, and so on."""
    names, inside = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(inside):
            raise ValueError(f"the schema has no message {index}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)


def _indexes(data: bytes) -> tuple[list[int], int]:
    """Return the indexes before a message, and its start. No index stands for the first message."""
    count, at = _varint(data, 0)
    if not 0 <= count <= len(data):
        raise ValueError("the indexes of the message are not valid")
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        indexes.append(index)
    return indexes or [0], at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    bits = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at
        shift += 7
    raise ValueError("the indexes of the message are cut off")
