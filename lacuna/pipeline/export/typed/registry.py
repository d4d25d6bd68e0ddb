"""Fetches schemas from a registry with Confluent's API, each with all schemas that it refers to.

Encoded values begin with a 0 byte and the four-byte id of their schema. A schema never changes, so it is fetched only
once.
"""

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from lacuna.base.errors import UserError
from lacuna.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from lacuna.pipeline.export.typed.schema import SchemaKind, TypedSchema

_MAGIC: Final = 0
PREFIX: Final = 5
#: The maximum size of a schema in bytes, and the seconds within which it must arrive.
_DOCUMENT_BYTES: Final = 1 << 20
_FETCH_SECONDS: Final = 3.0
#: The maximum number of schemas that a schema refers to, directly or indirectly.
_REFERENCES: Final = 50
_KINDS: "Final[Mapping[str, SchemaKind]]" = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json"}


class NoSchema(PipelineError):
    """The registry does not know a schema, or the schema cannot be used. The message gives the reason."""


class RegistryUnavailable(NoSchema):
    """The registry did not respond, or rejected the request. A retry may succeed."""


@contextmanager
def _checked() -> Iterator[None]:
    """Raises NoSchema if a field in a response is missing, has the wrong type, or is nested too deeply."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise NoSchema("the registry's response is not valid") from error


def schema_id_of(data: bytes | None) -> int | None:
    """Returns the schema id at the beginning of an encoded value, or None."""
    if data is None or len(data) < PREFIX or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:PREFIX], "big")


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, but sends the credentials only to the original scheme, host and port."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and _server_of(newurl) != _server_of(req.full_url):
            following.remove_header("Authorization")
        return following


def _server_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


_opener: Final = build_opener(_Redirects)


@dataclass(frozen=True, slots=True)
class Registered:
    """The JSON text of an Avro or JSON Schema, or serialized Protobuf descriptors with the schema's own file last."""

    kind: "SchemaKind"
    document: bytes


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry's URL, with USER:PASSWORD if it requires a login. Can be pickled. Raises UserError if invalid."""

    url: str
    credentials: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).netloc:
            raise UserError(
                f"{self.url} is not the address of a schema registry: specify http://HOST:PORT"
            )

    @_checked()
    def by_id(self, schema_id: int) -> Registered:
        """Returns the schema with this id. Raises NoSchema, RegistryUnavailable."""
        path = f"/schemas/ids/{schema_id}"
        answer = self._get(path)
        kind = _KINDS.get(str(answer.get("schemaType", "AVRO")))
        if kind is None:
            raise NoSchema(f"its type {str(answer['schemaType'])[:40]} is not known")
        if kind != "protobuf":
            assemble = _whole_avro if kind == "avro" else _whole_json
            return Registered(kind, assemble(answer["schema"], self._references(answer, "")))
        serialized = "?format=serialized"
        main = self._get(f"{path}{serialized}")["schema"]
        files = _descriptors(main, self._references(answer, serialized))
        return Registered(kind, files.SerializeToString())

    @_checked()
    def newest(self, subject: str) -> Registered | None:
        """Returns a subject's newest schema, or None if there is none. Raises NoSchema, RegistryUnavailable."""
        try:
            answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        except RegistryUnavailable:
            raise
        except NoSchema:
            return None
        return self.by_id(int(answer["id"]))

    def _references(
        self, answer: Mapping[str, Any], query: str, known: dict[str, str] | None = None
    ) -> dict[str, str]:
        """Returns the schemas that a schema refers to, by name, dependencies first. Adds them to `known`."""
        named = {} if known is None else known
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
            named[name] = ""  # so that circular references end
            self._references(found, query, named)
            del named[name]
            named[name] = str(found["schema"])
        return named

    def _get(self, path: str) -> Mapping[str, Any]:
        headers = {"accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.credentials:
            token = base64.b64encode(self.credentials.strip()).decode()
            headers["authorization"] = f"Basic {token}"
        try:
            request = Request(f"{self.url.rstrip('/')}{path}", headers=headers)  # noqa: S310 - checked above
            with _opener.open(request, timeout=_FETCH_SECONDS) as answer:
                body = answer.read(_DOCUMENT_BYTES + 1)
        except HTTPError as error:
            with error:
                is_missing = error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY)
                kind = NoSchema if is_missing else RegistryUnavailable
                raise kind(f"the registry returned {error.code} for {path}") from error
        except (URLError, OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise RegistryUnavailable(f"the registry does not answer: {reason}") from error
        if len(body) > _DOCUMENT_BYTES:
            raise NoSchema("it is larger than 1 MiB")
        try:
            found = json.loads(body)
            if not isinstance(found, dict) or not isinstance(found["schema"], str):
                raise NoSchema("the registry's response contains no schema")
        except (ValueError, KeyError) as error:
            raise NoSchema("the registry's response is not valid") from error
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """The registry subjects that contain the schemas of topics.

    `keys` and `values` map topics, patterns, or "" (for all topics) to a subject, in which `{topic}` stands for the
    topic's name. Likewise, `messages` and `key_messages` specify the Protobuf messages of values and keys. The default
    is the first message in a file.
    """

    registry: Registry
    keys: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    key_messages: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)

    def key(self, topic: str) -> "TypedSchema | None":
        """Returns the newest schema of a topic's keys; None if the default subject does not exist."""
        return self._schema(topic, "{topic}-key", self.keys, self.key_messages)

    def value(self, topic: str) -> "TypedSchema | None":
        """Returns the newest schema of a topic's values; None if the default subject does not exist."""
        return self._schema(topic, "{topic}-value", self.values, self.messages)

    def _schema(
        self, topic: str, default: str, named: Mapping[str, str], messages: Mapping[str, str]
    ) -> "TypedSchema | None":
        from lacuna.pipeline.export.typed.schema import TypedSchema, decoder_of

        given = _of_topic(named, topic)
        subject = (given or default).replace("{topic}", topic)
        try:
            newest = self.registry.newest(subject)
            if newest is None:
                if given is None:
                    return None
                raise NoSchema("the registry does not have it")
            message = ""
            if newest.kind == "protobuf":
                message = _of_topic(messages, topic) or _first_message(newest.document)
            schema = TypedSchema(newest.kind, newest.document, message, registry=self.registry)
            decoder_of(schema)
        except PipelineError as error:
            raise type(error)(f"subject {subject}: {error}") from error
        return schema


def _of_topic(named: Mapping[str, str], topic: str) -> str | None:
    """Returns the entry for a topic's name, for the first pattern that matches it, or for all topics."""
    if topic in named:
        return named[topic]
    patterns = (
        value for pattern, value in named.items() if pattern and fnmatchcase(topic, pattern)
    )
    return next(patterns, named.get(""))


def _first_message(document: bytes) -> str:
    from lacuna.pipeline.export.typed.protobuf import message_at

    file = descriptor_pb2.FileDescriptorSet.FromString(document).file[-1]
    if not file.message_type:
        raise NoSchema("it has no message")
    return message_at(file, bytes(1))[0]


# Combine each schema with those that it refers to.


def _whole_avro(text: str, named: Mapping[str, str]) -> bytes:
    try:
        definitions = {name: json.loads(each) for name, each in named.items()}
        whole = _with_definitions(json.loads(text), definitions, "")
    except ValueError as error:
        raise NoSchema("it is not valid JSON") from error
    return json.dumps(whole).encode()


def _with_definitions(schema: Any, definitions: dict[str, Any], namespace: str) -> Any:
    """Returns an Avro schema with the definition of each name from another schema inserted at its first use."""
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


def _whole_json(text: str, named: Mapping[str, str]) -> bytes:
    """Adds the schemas that a JSON Schema uses to its `$defs`, so that all references are internal."""
    if not named:
        return text.encode()
    try:
        main = json.loads(text)
        others = {name: json.loads(each) for name, each in named.items()}
    except ValueError as error:
        raise NoSchema("it is not valid JSON") from error
    places: dict[str, str] = {}
    for number, (name, each) in enumerate(others.items()):
        # Other schemas may also refer to it by its id.
        names = filter(None, (name, _id_of(each).rstrip("#")))
        places |= dict.fromkeys(names, f"/$defs/lacuna-{number}")
    whole = _pointing(main, "", _id_of(main), places)
    if isinstance(whole, dict):
        definitions = whole.setdefault("$defs", {})
        for name, each in others.items():
            place = places[name]
            inner = _pointing(each, place, _id_of(each), places)
            if isinstance(inner, dict):  # its id would change the base of its references
                inner = {key: value for key, value in inner.items() if key not in _IDS}
            definitions[place.rpartition("/")[2]] = inner
    return json.dumps(whole).encode()


_IDS: Final = ("$id", "id", "$schema")


def _id_of(schema: Any) -> str:
    found = schema.get("$id", "") if isinstance(schema, dict) else ""
    return found if isinstance(found, str) else ""


def _pointing(schema: Any, place: str, base: str, places: Mapping[str, str]) -> Any:
    """Adapts a schema's references to a document that contains it at `place`, and the other schemas at `places`."""
    if isinstance(schema, list):
        return [_pointing(each, place, base, places) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _pointing(each, place, base, places) for key, each in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        file, _, inside = reference.partition("#")
        there = places.get(file, places.get(urljoin(base, file))) if file else place
        if there is not None:
            changed["$ref"] = f"#{there}{inside}"
    return changed


def _descriptors(main: str, named: Mapping[str, str]) -> descriptor_pb2.FileDescriptorSet:
    """Returns the descriptors of a schema and of those that it refers to, with the schema's own file last.

    A registry returns descriptors, serialized in base64, or source code, which is compiled here.
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
    """Returns the imported files that are part of Protobuf itself, which a registry does not contain."""
    from google.protobuf import descriptor_pool

    found: dict[str, descriptor_pb2.FileDescriptorProto] = {}

    def add(name: str) -> None:
        if name in parsed or name in found:
            return
        try:
            __import__(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
        except ImportError as error:
            raise NoSchema(f"it imports {name[:80]!r}, which is not part of Protobuf") from error
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
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            except OSError as error:
                raise NoSchema(
                    f"the file of its schema {name[:80]!r} could not be written: {error.strerror}"
                ) from error
        return descriptor_pb2.FileDescriptorSet.FromString(compile_proto(root / "main.proto"))
