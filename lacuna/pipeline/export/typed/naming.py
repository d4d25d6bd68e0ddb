from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.export.typed.schema import TypedSchema, decoder_of

_FORMS = ".json (JSON Schema), .avsc (Avro), .proto (Protobuf source) or .desc (a Protobuf FileDescriptorSet)"


def load_schema(path: Path, message: str | None = None, *, has_prefix: bool = False) -> TypedSchema:
    """Loads and checks the schema in a file, whose extension determines the kind of schema.

    `message` is the name of the Protobuf message, which is required if the file contains several. `has_prefix` is True
    if values have Confluent's prefix. Raises PipelineError for an unusable file or schema.
    """
    try:
        document = path.read_bytes()
    except OSError as error:
        raise PipelineError(f"the schema {path} cannot be read: {error.strerror}") from error
    kind = path.suffix.lower()
    if kind in (".json", ".avsc") and message:
        raise PipelineError(f"{path} is not a Protobuf schema: it has no message {message!r}")
    if kind == ".json":
        schema = TypedSchema("json", document, has_prefix=has_prefix)
    elif kind == ".avsc":
        schema = TypedSchema("avro", document, has_prefix=has_prefix)
    elif kind in (".proto", ".desc", ".binpb", ".pb"):
        schema = _protobuf(path, document, message, has_prefix=has_prefix)
    else:
        raise PipelineError(
            f"cannot tell what kind of schema {path} is: give it a name that ends in {_FORMS}"
        )
    try:
        decoder_of(schema)
    except ModuleNotFoundError as error:
        raise PipelineError(
            f"the schema {path} needs the Python package {error.name}: pip install 'lacuna-log[export]'"
        ) from error
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from error
    return schema


def _protobuf(path: Path, document: bytes, message: str | None, *, has_prefix: bool) -> TypedSchema:
    from lacuna.pipeline.export.typed.protobuf import compile_proto, message_names

    if path.suffix.lower() == ".proto":
        document = compile_proto(path)
    if message is None:
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(document)
        except DecodeError as error:
            raise PipelineError(f"{path} is not a FileDescriptorSet: {error}") from error
        names = message_names(files)
        own = set(message_names(descriptor_pb2.FileDescriptorSet(file=files.file[-1:])))
        if len(own) != 1:
            raise PipelineError(
                f"{path} contains several messages: specify one ({', '.join(names)}) with --value-message "
                "or --key-message"
            )
        (message,) = own
    return TypedSchema("protobuf", document, message, has_prefix)
