"""The options of `lacuna export`, and the settings made from them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lacuna.cli.command_line import option
from lacuna.errors import UserError

if TYPE_CHECKING:
    from lacuna.pipeline.export.job import ExportSettings
    from lacuna.pipeline.export.layout import Layout

_SCHEMA = "Typed keys and values"
_FILES = "Files"
_ICEBERG = "Iceberg"

MEBIBYTE = 1 << 20

To = Annotated[
    str,
    option(
        "--to",
        help="Where to write: a folder or s3://BUCKET/PREFIX?endpoint=URL; for Iceberg, the warehouse. "
        "S3 credentials come from the environment.",
    ),
]
Format = Annotated[
    str, option("--format", "-f", help="parquet: plain files; iceberg: one table per topic.")
]
PartitionBy = Annotated[
    str,
    option(
        "--partition-by",
        help=(
            "day, hour or none: how to partition folders or Iceberg tables by the records' time in "
            "UTC."
        ),
        panel=_FILES,
    ),
]
FileMebibytes = Annotated[
    int,
    option("--file-mib", min=1, max=4096, help="Approximate size of a file.", panel=_FILES),
]
TaskMebibytes = Annotated[
    int,
    option(
        "--task-mib",
        min=1,
        help=(
            "Approximate number of stored bytes that one Spark task reads; a larger partition is "
            "split."
        ),
        panel=_FILES,
    ),
]
Compression = Annotated[
    str,
    option(
        "--compression",
        help="Compression of the files: zstd, snappy, gzip, lz4 or none.",
        panel=_FILES,
    ),
]
ValueSchema = Annotated[
    Path | None,
    option(
        "--value-schema",
        help="Schema of the values: .json (JSON Schema), .avsc (Avro), .proto or .desc (Protobuf).",
        panel=_SCHEMA,
    ),
]
KeySchema = Annotated[
    Path | None,
    option("--key-schema", help="Schema of the keys, likewise.", panel=_SCHEMA),
]
ValueMessage = Annotated[
    str | None,
    option(
        "--value-message",
        help="Protobuf message of the values, if the schema has several.",
        panel=_SCHEMA,
    ),
]
KeyMessage = Annotated[
    str | None,
    option("--key-message", help="Protobuf message of the keys, likewise.", panel=_SCHEMA),
]
ConfluentPrefix = Annotated[
    bool,
    option(
        "--confluent-prefix",
        help="Skip the prefix of Confluent's serializers: a 0 byte, the schema id, and Protobuf's "
        "message indexes. No registry is asked.",
        panel=_SCHEMA,
    ),
]
Flatten = Annotated[
    bool,
    option(
        "--flatten",
        help="Turn the fields of typed values and keys into columns.",
        panel=_SCHEMA,
    ),
]
OnError = Annotated[
    str,
    option(
        "--on-error",
        help="What to do with a record that does not match its schema. fail: export nothing; null: "
        "write null; quarantine: write the original record to separate files.",
        panel=_SCHEMA,
    ),
]
CatalogUri = Annotated[
    str | None,
    option(
        "--catalog-uri",
        help="URL of a REST catalog, or sqlite:////PATH. Default: catalog.db in the folder of --to.",
        panel=_ICEBERG,
    ),
]
CatalogProperties = Annotated[
    list[str] | None,
    option(
        "--catalog",
        help="A pyiceberg property of the catalog, NAME=VALUE. May be repeated.",
        panel=_ICEBERG,
    ),
]
CatalogName = Annotated[
    str,
    option(
        "--catalog-name",
        help=(
            "Name of the catalog: SQL catalogs keep their tables under it, and .pyiceberg.yaml its "
            "properties."
        ),
        panel=_ICEBERG,
    ),
]
Namespace = Annotated[
    str,
    option("--namespace", help="Namespace of the tables.", panel=_ICEBERG),
]


def make_layout(
    partition_by: str,
    key: tuple[Path | None, str | None],
    value: tuple[Path | None, str | None],
    *,
    has_prefix: bool,
    is_flat: bool,
) -> "Layout":
    """The layout of the exported rows; `key` and `value` are (schema file, Protobuf message), either may be None.

    Raises UserError for options that contradict each other, PipelineError for a schema that cannot be used.
    """
    from lacuna.pipeline.export.layout import Layout
    from lacuna.pipeline.export.typed.naming import load_schema

    if key[0] is None and value[0] is None and (has_prefix or is_flat):
        option = "--flatten" if is_flat else "--confluent-prefix"
        raise UserError(f"{option} needs a schema: give --value-schema or --key-schema")
    for name, (path, message) in (("key", key), ("value", value)):
        if message and path is None:
            raise UserError(f"--{name}-message needs a schema to look in: give --{name}-schema")
    typed = {
        name: None if path is None else load_schema(path, message, has_prefix=has_prefix)
        for name, (path, message) in (("key", key), ("value", value))
    }
    return Layout(partition_by=partition_by, is_flat=is_flat, **typed)


def make_settings(**values: Any) -> "ExportSettings":
    """Makes an ExportSettings with these fields and checks it. Raises UserError, PipelineError."""
    from lacuna.pipeline.export.job import ICEBERG, ExportSettings
    from lacuna.pipeline.export.running import check_settings

    settings = ExportSettings(**values)
    if settings.format != ICEBERG and settings.catalog:
        raise UserError(
            "--catalog and --catalog-uri are only for Iceberg: add --format iceberg, or leave them out"
        )
    if settings.format != ICEBERG and not settings.to:
        raise UserError("no destination was given: name a folder or s3://BUCKET/PREFIX with --to")
    check_settings(settings)
    return settings


def catalog_settings(uri: str | None, texts: Iterable[str]) -> dict[str, str]:
    """pyiceberg's catalog properties from `uri` and NAME=VALUE texts. Raises UserError for any other text."""
    found = {} if uri is None else {"uri": uri}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UserError(f"{text!r} is not a property: write --catalog NAME=VALUE")
        found[name] = value
    return found
