"""Decodes Protobuf messages that a .proto file or a FileDescriptorSet defines.

| field | column |
|---|---|
| message, repeated, map | struct, list, map (keys as text) |
| int32, int64 and their variants; uint32; uint64 | int32, int64; int64; decimal(20, 0) |
| enum | the value's name, or its number if it has none |
| google.protobuf.Timestamp, wrapper types | timestamp (UTC), the wrapped value or null |
| Struct, Value, Any and other well-known types, recursion | its JSON text |

An absent field is null if its presence is tracked; otherwise, it has its default value.
"""

import datetime
import decimal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.typed.schema import (
    Decoder,
    Node,
    NotOfSchemaError,
    TypedSchema,
    list_node,
)

_COMPILE_SECONDS: Final = 60
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NUMBERS: Final = {
    FieldDescriptor.CPPTYPE_INT32: Node(pa.int32()),
    FieldDescriptor.CPPTYPE_INT64: Node(pa.int64()),
    FieldDescriptor.CPPTYPE_UINT32: Node(pa.int64()),
    FieldDescriptor.CPPTYPE_UINT64: Node(pa.decimal128(20, 0), decimal.Decimal),
    FieldDescriptor.CPPTYPE_FLOAT: Node(pa.float32()),
    FieldDescriptor.CPPTYPE_DOUBLE: Node(pa.float64()),
    FieldDescriptor.CPPTYPE_BOOL: Node(pa.bool_()),
}
_WELL_KNOWN: Final = "google.protobuf."


def protobuf_decoder(schema: TypedSchema) -> Decoder:
    """Returns the decoder for a Protobuf message. Raises PipelineError for invalid descriptors or a missing message."""
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(schema.document)
        for file in files.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(schema.message)
    except (DecodeError, TypeError) as error:
        raise PipelineError(f"these are not Protobuf descriptors: {error}") from error
    except KeyError:
        raise PipelineError(
            f"there is no message {schema.message!r}; the schema has {', '.join(message_names(files))}"
        ) from None
    kind = message_factory.GetMessageClass(descriptor)

    def decode(data: bytes) -> Any:
        try:
            return kind.FromString(data[_indexes(data)[1] :] if schema.has_prefix else data)
        except DecodeError as error:
            raise NotOfSchemaError(f"it is not a {schema.message} ({error})") from error

    return Decoder(_message_node(descriptor, ()), decode, has_prefix=schema.has_prefix)


def compile_proto(path: Path) -> bytes:
    """Compiles a .proto file and its imports into a serialized FileDescriptorSet. Raises PipelineError."""
    with tempfile.TemporaryDirectory(prefix="lacuna-") as folder:
        target = Path(folder, "descriptors")
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(path.resolve().parent)]
        command += ["--include_imports", f"--descriptor_set_out={target}", path.name]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
        )
        if done.returncode != 0:
            if "No module named" in done.stderr:
                raise PipelineError(
                    "compiling .proto files needs grpcio-tools: pip install 'lacuna-log[export]'"
                )
            raise PipelineError(f"{path} does not compile: {_complaints(done.stderr)}")
        return target.read_bytes()


def _complaints(text: str) -> str:
    """Extracts the compiler's errors about files, without warnings."""
    lines = [
        line for line in text.splitlines() if ".proto:" in line and "warning" not in line.lower()
    ]
    return "; ".join(line[line.rfind("/") + 1 :] for line in lines[:3]) or text.strip()


def message_names(files: descriptor_pb2.FileDescriptorSet) -> Sequence[str]:
    """Returns the full names of the top-level messages, starting with those of the last file."""
    return [
        ".".join(filter(None, (file.package, message.name)))
        for file in reversed(files.file)
        for message in file.message_type
        if not file.package.startswith(_WELL_KNOWN.rstrip("."))
    ]


def _message_node(descriptor: Descriptor, path: tuple[str, ...]) -> Node:
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return Node(pa.timestamp("us", tz="UTC"), _instant)
    if (
        name.startswith(_WELL_KNOWN)
        and name.endswith("Value")
        and "value" in descriptor.fields_by_name
    ):
        inner = _single_node(descriptor.fields_by_name["value"], path)
        change = inner.convert or (lambda value: value)
        return Node(inner.type, lambda message: change(message.value))
    if name.startswith(_WELL_KNOWN) or name in path or not descriptor.fields:
        return Node(pa.string(), _text)
    inside = (*path, name)
    fields = [(field, _field_node(field, inside)) for field in descriptor.fields]
    kind = pa.struct([pa.field(field.name, node.type) for field, node in fields])

    def convert(message: Any) -> Any:
        return {field.name: _get(message, field, node) for field, node in fields}

    return Node(kind, convert)


def _get(message: Any, field: FieldDescriptor, node: Node) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    return value if node.convert is None else node.convert(value)


def _field_node(field: FieldDescriptor, path: tuple[str, ...]) -> Node:
    if not field.is_repeated:
        return _single_node(field, path)
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return list_node(_single_node(field, path))
    item = _single_node(entry.fields_by_name["value"], path)
    change = item.convert or (lambda value: value)
    return Node(
        pa.map_(pa.string(), item.type),
        lambda value: [(_map_key(key), change(value[key])) for key in sorted(value)],
    )


def _single_node(field: FieldDescriptor, path: tuple[str, ...]) -> Node:
    if field.message_type is not None:
        return _message_node(field.message_type, path)
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        return Node(pa.string(), lambda number: names.get(number, str(number)))
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return Node(pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string())
    return _NUMBERS[field.cpp_type]


def _map_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _instant(message: Any) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(
            seconds=message.seconds, microseconds=message.nanos // 1000
        )
    except OverflowError as error:
        raise NotOfSchemaError(f"{message.seconds} seconds are beyond the year 9999") from error


def _text(message: Any) -> str:
    try:
        return json_format.MessageToJson(
            message, preserving_proto_field_name=True, indent=None, ensure_ascii=False
        )
    except (ValueError, TypeError, json_format.Error) as error:
        raise NotOfSchemaError(
            f"{message.DESCRIPTOR.full_name} cannot be written as JSON: {error}"
        ) from error


def message_at(file: descriptor_pb2.FileDescriptorProto, data: bytes) -> tuple[str, bytes]:
    """Returns the full name and the bytes of a message in `data`, the part of a value that follows Confluent's schema
    id.

    The name is encoded as the index of a top-level message in its file, followed by the index of a message nested in
    that one, and so on. Raises NotOfSchemaError.
    """
    indexes, start = _indexes(data)
    names, inside = [file.package] if file.package else [], file.message_type
    for index in indexes:
        if not 0 <= index < len(inside):
            raise NotOfSchemaError(f"the schema has no message {index}")
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names), data[start:]


def _indexes(data: bytes) -> tuple[list[int], int]:
    """Returns the indexes before a message, and the message's position. An empty list means the first message."""
    count, at = _varint(data, 0)
    if not 0 <= count <= len(data):
        raise NotOfSchemaError("the indexes of the message are not valid")
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        indexes.append(index)
    return indexes or [0], at


def _varint(data: bytes, position: int) -> tuple[int, int]:
    bits = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), position
        shift += 7
    raise NotOfSchemaError("Confluent's message indexes are cut off")
