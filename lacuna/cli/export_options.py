"""Options of `lacuna export`, and what they make together."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lacuna.errors import UserError

if TYPE_CHECKING:
    from pipeline.export.job import ExportSettings
    from pipeline.export.layout import Layout

_SCHEMA = "Typed keys and values"
_FILES = "Files"
_ICEBERG = "Iceberg"

MEBIBYTE = 1 << 20

To = Annotated[
    str,
    typer.Option(
        "--to",
        help="Where to write: a folder, or s3://BUCKET/PREFIX?endpoint=URL; of Iceberg tables the "
        "warehouse. S3's credentials come from the environment.",
    ),
]
Format = Annotated[
    str, typer.Option("--format", "-f", help="parquet: plain files; iceberg: a table per topic.")
]
PartitionBy = Annotated[
    str,
    typer.Option(
        "--partition-by",
        help="day, hour or none: folders by the records' time in UTC; of an Iceberg table its partitions.",
        rich_help_panel=_FILES,
    ),
]
FileMebibytes = Annotated[
    int,
    typer.Option(
        "--file-mib", min=1, max=4096, help="About how large a file gets.", rich_help_panel=_FILES
    ),
]
TaskMebibytes = Annotated[
    int,
    typer.Option(
        "--task-mib",
        min=1,
        help="About how much of the bucket a Spark task reads; a larger partition is split.",
        rich_help_panel=_FILES,
    ),
]
Compression = Annotated[
    str,
    typer.Option("--compression", help="zstd, snappy, gzip, lz4 or none.", rich_help_panel=_FILES),
]
ValueSchema = Annotated[
    Path | None,
    typer.Option(
        "--value-schema",
        help="Type values by this schema: .json (JSON Schema), .avsc (Avro), .proto or .desc (Protobuf).",
        rich_help_panel=_SCHEMA,
    ),
]
KeySchema = Annotated[
    Path | None,
    typer.Option("--key-schema", help="The same for keys.", rich_help_panel=_SCHEMA),
]
ValueMessage = Annotated[
    str | None,
    typer.Option(
        "--value-message",
        help="The Protobuf message, where the schema has several.",
        rich_help_panel=_SCHEMA,
    ),
]
KeyMessage = Annotated[
    str | None,
    typer.Option("--key-message", help="The same for keys.", rich_help_panel=_SCHEMA),
]
ConfluentPrefix = Annotated[
    bool,
    typer.Option(
        "--confluent-prefix",
        help="Skip what Confluent's serializers put in front: a 0 byte, the schema's id, and Protobuf's "
        "message indexes. The registry is not asked.",
        rich_help_panel=_SCHEMA,
    ),
]
Flatten = Annotated[
    bool,
    typer.Option(
        "--flatten",
        help="Fields of typed values and keys become columns of their own.",
        rich_help_panel=_SCHEMA,
    ),
]
OnError = Annotated[
    str,
    typer.Option(
        "--on-error",
        help="What to do with a record that does not fit its schema. fail: export nothing; null: "
        "write null; quarantine: write it to files of their own, as it came.",
        rich_help_panel=_SCHEMA,
    ),
]
CatalogUri = Annotated[
    str | None,
    typer.Option(
        "--catalog-uri",
        help="A REST catalog's URL, or sqlite:////PATH; if not given, catalog.db in the folder of --to.",
        rich_help_panel=_ICEBERG,
    ),
]
CatalogProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        help="A property of pyiceberg's for the catalog, NAME=VALUE; as often as you like.",
        rich_help_panel=_ICEBERG,
    ),
]
CatalogName = Annotated[
    str,
    typer.Option(
        "--catalog-name",
        help="The catalog's name: under it SQL catalogs keep their tables, and .pyiceberg.yaml its properties.",
        rich_help_panel=_ICEBERG,
    ),
]
Namespace = Annotated[
    str,
    typer.Option("--namespace", help="The tables' namespace.", rich_help_panel=_ICEBERG),
]


def make_layout(
    partition_by: str,
    key: tuple[Path | None, str | None],
    value: tuple[Path | None, str | None],
    *,
    has_prefix: bool,
    is_flat: bool,
) -> "Layout":
    """`key` and `value` are (schema, message). Raises UserError, PipelineError."""
    from pipeline.export.layout import Layout
    from pipeline.export.typed.naming import load_schema

    if key[0] is None and value[0] is None and (has_prefix or is_flat):
        option = "--flatten" if is_flat else "--confluent-prefix"
        raise UserError(f"{option} needs a schema: give --value-schema or --key-schema")
    for name, (path, message) in (("key", key), ("value", value)):
        if message and path is None:
            raise UserError(
                f"--{name}-message needs the schema that it is in: give --{name}-schema"
            )
    typed = {
        name: None if path is None else load_schema(path, message, has_prefix=has_prefix)
        for name, (path, message) in (("key", key), ("value", value))
    }
    return Layout(partition_by=partition_by, is_flat=is_flat, **typed)


def make_settings(**values: Any) -> "ExportSettings":
    """`values` are those of ExportSettings. Raises UserError, PipelineError where they do not fit."""
    from pipeline.export.job import ICEBERG, ExportSettings
    from pipeline.export.running import check_settings

    settings = ExportSettings(**values)
    if settings.format != ICEBERG and settings.catalog:
        raise UserError(
            "--catalog and --catalog-uri are for --format iceberg: give it, or leave them out"
        )
    if settings.format != ICEBERG and not settings.to:
        raise UserError("where to? Name a folder or s3://BUCKET/PREFIX with --to")
    check_settings(settings)
    return settings


def catalog_settings(uri: str | None, texts: Iterable[str]) -> dict[str, str]:
    """pyiceberg's properties. Raises UserError."""
    found = {} if uri is None else {"uri": uri}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UserError(f"{text!r} is no property: write --catalog NAME=VALUE")
        found[name] = value
    return found
