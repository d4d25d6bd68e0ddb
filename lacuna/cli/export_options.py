"""The options of `lacuna export`, and the settings made from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.cli.command_line import option
from lacuna.cli.units import parse_duration
from lacuna.logstore.objects.url import EXPORT_FORMS

if TYPE_CHECKING:
    from lacuna.pipeline.export.job import ExportSettings
    from lacuna.pipeline.export.layout import Layout
    from lacuna.pipeline.export.typed.registry import Subjects
    from lacuna.pipeline.export.typed.schema import TypedSchema

_SCHEMA = "Typed keys and values"
_FILES = "Files"
_ICEBERG = "Iceberg"

MEBIBYTE = 1 << 20

To = Annotated[
    str,
    option(
        "--to",
        help=f"Where to write: a folder, or a URL ({EXPORT_FORMS}); for Iceberg, the warehouse. "
        "Credentials come from the environment.",
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
            "UTC. For Iceberg also a list of transforms: 'bucket(16, key), identity(region), month(timestamp)'."
        ),
        panel=_FILES,
    ),
]
SortBy = Annotated[
    str,
    option(
        "--sort-by",
        help="Columns, separated by commas, by which the rows of a file are sorted, in parts of up to 32 MiB. Default: "
        "the order of offsets.",
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
    list[str] | None,
    option(
        "--value-schema",
        metavar="[TOPIC=]FILE",
        help="Schema of the values: .json (JSON Schema), .avsc (Avro), .proto or .desc (Protobuf). With TOPIC= (a "
        "name or a pattern) in front, only for these topics. May be repeated.",
        panel=_SCHEMA,
    ),
]
KeySchema = Annotated[
    list[str] | None,
    option(
        "--key-schema",
        metavar="[TOPIC=]FILE",
        help="Schema of the keys, in the form of --value-schema.",
        panel=_SCHEMA,
    ),
]
ValueMessage = Annotated[
    list[str] | None,
    option(
        "--value-message",
        metavar="[TOPIC=]NAME",
        help="Protobuf message of the values, if the schema has several. TOPIC= works as in --value-schema.",
        panel=_SCHEMA,
    ),
]
KeyMessage = Annotated[
    list[str] | None,
    option(
        "--key-message",
        metavar="[TOPIC=]NAME",
        help="Protobuf message of the keys, in the form of --value-message.",
        panel=_SCHEMA,
    ),
]
ConfluentPrefix = Annotated[
    bool,
    option(
        "--confluent-prefix",
        help="Skip the prefix of Confluent's serializers: a 0 byte, the schema id, and Protobuf's message indexes. "
        "To decode each record by its own schema, use --registry.",
        panel=_SCHEMA,
    ),
]
Registry = Annotated[
    str | None,
    option(
        "--registry",
        metavar="URL",
        help="Schema registry with Confluent's interface. Each record is decoded by the schema that it names, and "
        "resolved to the newest schema of its subject, which has the columns.",
        panel=_SCHEMA,
    ),
]
RegistryLogin = Annotated[
    str | None,
    option(
        "--registry-login",
        metavar="SOURCE",
        help="Source of USER:PASSWORD for the registry: file:PATH, env:NAME or command:LINE.",
        panel=_SCHEMA,
    ),
]
ValueSubject = Annotated[
    list[str] | None,
    option(
        "--value-subject",
        metavar="[TOPIC=]SUBJECT",
        help="Subject of the values, where {topic} stands for the topic's name. Default: '{topic}-value', and bytes if "
        "the registry does not have it. May be repeated.",
        panel=_SCHEMA,
    ),
]
KeySubject = Annotated[
    list[str] | None,
    option(
        "--key-subject",
        metavar="[TOPIC=]SUBJECT",
        help="Subject of the keys, in the form of --value-subject. Default: '{topic}-key'.",
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
        help="Treatment of a record that does not match its schema. fail: export nothing; null: "
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
ExpireSnapshots = Annotated[
    str | None,
    option(
        "--expire-snapshots",
        help="After each run, delete snapshots that are older than this: 12h, 7d. The newest complete cut stays.",
        panel=_ICEBERG,
    ),
]
Maintain = Annotated[
    bool,
    option(
        "--maintain",
        help="After each run, merge small files, and delete old snapshots with the files that only they use. Without "
        "--expire-snapshots, snapshots stay for a day.",
        panel=_ICEBERG,
    ),
]
Upsert = Annotated[
    bool,
    option(
        "--upsert",
        help="Keep one row for each key: a record replaces the row of the earlier one, and a record without a value "
        "deletes it. Implies --maintain.",
        panel=_ICEBERG,
    ),
]
Table = Annotated[
    list[str] | None,
    option(
        "--table",
        metavar="TOPIC=NAME",
        help="Name of a topic's table. Default: the topic's, with underscores for dots. May be repeated.",
        panel=_ICEBERG,
    ),
]


@dataclass(frozen=True, slots=True)
class Given:
    """The schemas and messages of keys or values (`name`) by topic or pattern. "" stands for all topics."""

    name: str
    schemas: Mapping[str, str]
    messages: Mapping[str, str]

    @classmethod
    def of(
        cls,
        name: str,
        schemas: Iterable[str],
        messages: Iterable[str],
        *,
        has_registry: bool = False,
    ) -> "Given":
        """Reads the options. Raises UserError for a message without a schema, which a registry may have."""
        given = cls(name, dict(map(_by_topic, schemas)), dict(map(_by_topic, messages)))
        for topic in given.messages:
            if topic not in given.schemas and not has_registry:
                prefix = f"{topic}=" if topic else ""
                raise UserError(
                    f"--{name}-message {prefix}{given.messages[topic]} needs a schema: add --{name}-schema "
                    f"{prefix}FILE"
                )
        return given

    def schema(self, topic: str, *, has_prefix: bool) -> "TypedSchema | None":
        """Return the schema for a topic or pattern, or the one for all topics. Raises PipelineError."""
        from lacuna.pipeline.export.typed.naming import load_schema

        where = topic if topic in self.schemas else ""
        if where not in self.schemas:
            return None
        path = Path(self.schemas[where])
        return load_schema(path, self.messages.get(where), has_prefix=has_prefix)


def _by_topic(text: str) -> tuple[str, str]:
    """Return the topic and the value of [TOPIC=]VALUE. Text with a slash before the equals sign is a path."""
    topic, sign, value = text.partition("=")
    return (topic, value) if sign and "/" not in topic else ("", text)


def make_layouts(
    partition_by: str,
    key: Given,
    value: Given,
    *,
    has_prefix: bool,
    is_flat: bool,
    has_registry: bool = False,
    sort_by: str = "",
) -> "tuple[Layout, tuple[tuple[str, Layout], ...]]":
    """Return the layout of the exported rows of all topics, and those of topics and patterns with their own schemas.

    Names come before patterns. Raises UserError for options that contradict each other, PipelineError for a schema that
    cannot be used.
    """
    from lacuna.pipeline.export.job import is_pattern
    from lacuna.pipeline.export.layout import Layout

    if not key.schemas and not value.schemas and (has_prefix or (is_flat and not has_registry)):
        option = "--confluent-prefix" if has_prefix else "--flatten"
        raise UserError(f"{option} needs a schema: add --value-schema or --key-schema")

    def layout_of(topic: str) -> Layout:
        return Layout(
            partition_by=partition_by,
            sort_by=tuple(filter(None, map(str.strip, sort_by.split(",")))),
            is_flat=is_flat,
            key=key.schema(topic, has_prefix=has_prefix),
            value=value.schema(topic, has_prefix=has_prefix),
        )

    topics = [topic for topic in {**key.schemas, **value.schemas} if topic]
    topics.sort(key=is_pattern)
    return layout_of(""), tuple((topic, layout_of(topic)) for topic in topics)


def subjects_of(
    url: str | None,
    login: str | None,
    keys: tuple[Iterable[str], Given],
    values: tuple[Iterable[str], Given],
) -> "Subjects | None":
    """Return the subjects of a registry, if there is one. Raises UserError."""
    named = [dict(map(_by_topic, subjects)) for subjects, _ in (keys, values)]
    if url is None:
        if login or any(named):
            option = "--registry-login" if login else "--value-subject or --key-subject"
            raise UserError(f"{option} needs a registry: add --registry URL")
        return None
    from lacuna.pipeline.export.typed.registry import Registry, Subjects

    return Subjects(
        registry=Registry(url, read_secret(login, "--registry-login") if login else None),
        keys=named[0],
        values=named[1],
        key_messages=keys[1].messages,
        messages=values[1].messages,
    )


def expire_ms(age: str | None, *, maintains: bool) -> int | None:
    """Return --expire-snapshots in milliseconds, with --maintain a day by default. Raises UserError."""
    age = age or ("1d" if maintains else None)
    return None if age is None else int(parse_duration(age, "--expire-snapshots") * 1000)


def make_settings(**values: Any) -> "ExportSettings":
    """Return checked ExportSettings. Raises UserError, PipelineError."""
    from lacuna.pipeline.export.job import ICEBERG, ExportSettings
    from lacuna.pipeline.export.running import check_settings

    settings = ExportSettings(**values)
    is_iceberg = settings.catalog or settings.tables or settings.expire_ms is not None
    if settings.format != ICEBERG and is_iceberg:
        raise UserError(
            "--catalog, --catalog-uri, --table, --expire-snapshots and --maintain apply only to Iceberg: add --format "
            "iceberg, or leave them out"
        )
    if settings.format != ICEBERG and not settings.to:
        raise UserError(
            "the export has no destination: name a folder or the URL of a bucket with --to"
        )
    check_settings(settings)
    return settings


def catalog_settings(uri: str | None, texts: Iterable[str]) -> dict[str, str]:
    """Return pyiceberg's catalog properties from `uri` and NAME=VALUE texts. Raises UserError for any other text."""
    properties = {} if uri is None else {"uri": uri}
    return properties | pairs(texts, "is not a property: write --catalog NAME=VALUE")


def pairs(texts: Iterable[str], otherwise: str) -> dict[str, str]:
    """Return the names and values of NAME=VALUE texts.

    Raises UserError for any other text; `otherwise` is the end of the message.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UserError(f"{text!r} {otherwise}")
        values[name] = value
    return values
