"""The options of `lacuna export`, and the export settings made from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.cli.command_line import argument, option
from lacuna.cli.job_workers import SparkOptions
from lacuna.cli.options import JobPlace
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

_MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas and Protobuf messages for keys or values (`name`), by topic or pattern, or "" for all topics."""

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
    ) -> "Schemas":
        """Parses the options. Raises UserError for a message without a schema, unless a registry may supply one."""
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
        """Return the schema for a topic or pattern, or else the one for all topics. Raises PipelineError."""
        from lacuna.pipeline.export.typed.naming import load_schema

        where = topic if topic in self.schemas else ""
        if where not in self.schemas:
            return None
        path = Path(self.schemas[where])
        return load_schema(path, self.messages.get(where), has_prefix=has_prefix)


def _by_topic(text: str) -> tuple[str, str]:
    """Split [TOPIC=]VALUE into the topic and the value. If a slash precedes the equals sign, the text is a path."""
    topic, sign, value = text.partition("=")
    return (topic, value) if sign and "/" not in topic else ("", text)


def _checked(settings: "ExportSettings") -> "ExportSettings":
    """Raises UserError or PipelineError if the settings cannot be used."""
    from lacuna.pipeline.export.job import ICEBERG
    from lacuna.pipeline.export.running import check_settings

    is_iceberg = settings.catalog or settings.tables or settings.expire_ms is not None
    if settings.format != ICEBERG and is_iceberg:
        raise UserError(
            "--catalog, --catalog-uri, --table, --expire-snapshots and --maintain apply only to Iceberg: add --format "
            "iceberg, or omit them"
        )
    if settings.format != ICEBERG and not settings.to:
        raise UserError(
            "the export has no destination: specify a folder or the URL of a bucket with --to"
        )
    check_settings(settings)
    return settings


def pairs(texts: Iterable[str], otherwise: str) -> dict[str, str]:
    """Parse NAME=VALUE texts. Raises UserError, with a message that ends with `otherwise`, for any other text."""
    values: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise UserError(f"{text!r} {otherwise}")
        values[name] = value
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    topics: Annotated[
        list[str] | None, argument(help="Names of the topics, or patterns such as 'logs-*'.")
    ] = None
    to: Annotated[
        str,
        option(
            help=f"Where to write: a folder, or a URL ({EXPORT_FORMS}); for Iceberg, the warehouse. "
            "Credentials come from the environment."
        ),
    ] = ""
    format: Annotated[
        str, option("--format", "-f", help="parquet: plain files; iceberg: one table per topic.")
    ] = "parquet"
    allow_loss: Annotated[
        bool,
        option(help=("Continue even if retention deleted records before they were exported.")),
    ] = False
    skip_damage: Annotated[
        Path | None,
        option(
            help="A report from `lacuna verify --json`. The export skips the damaged records listed in it. "
            "Other damage still makes a topic's export fail."
        ),
    ] = None
    watch: Annotated[
        str | None,
        option(
            help="Export repeatedly, with this pause between runs: 10m, 1h. Ctrl-C ends the command."
        ),
    ] = None
    follow: Annotated[
        bool,
        option(
            help="Export continuously: a run begins every 20 seconds, so readers are at most "
            "a minute behind. Implies --maintain for Iceberg. Ctrl-C ends the command."
        ),
    ] = False
    status: Annotated[
        bool,
        option(
            help="List the newest complete cuts of earlier exports, and what to read for each cut. Exports nothing."
        ),
    ] = False
    as_json: Annotated[
        bool, option("--json", help="Print the report as JSON, one line for each topic.")
    ] = False
    partition_by: Annotated[
        str,
        option(
            help=(
                "day, hour or none: how to partition folders or Iceberg tables by the records' time in "
                "UTC. For Iceberg also a list of transforms: 'bucket(16, key), identity(region), month(timestamp)'."
            ),
            panel=_FILES,
        ),
    ] = "none"
    sort_by: Annotated[
        str,
        option(
            help="Columns, separated by commas, by which to sort the rows of a file, in parts of up to 32 MiB. "
            "Default: offset order.",
            panel=_FILES,
        ),
    ] = ""
    file_mib: Annotated[
        int, option(min=1, max=4096, help="Approximate size of a file.", panel=_FILES)
    ] = 128
    task_mib: Annotated[
        int,
        option(
            min=1,
            help=(
                "Approximate number of stored bytes that one Spark task reads; a larger partition is "
                "split."
            ),
            panel=_FILES,
        ),
    ] = 64
    compression: Annotated[
        str, option(help="Compression of the files: zstd, snappy, gzip, lz4 or none.", panel=_FILES)
    ] = "zstd"
    value_schema: Annotated[
        list[str] | None,
        option(
            metavar="[TOPIC=]FILE",
            help="Schema of the values: .json (JSON Schema), .avsc (Avro), .proto or .desc (Protobuf). Prefix "
            "it with TOPIC= (a name or a pattern) to use it only for these topics. May be repeated.",
            panel=_SCHEMA,
        ),
    ] = None
    value_message: Annotated[
        list[str] | None,
        option(
            metavar="[TOPIC=]NAME",
            help="Protobuf message of the values, if the schema has several. A TOPIC= prefix "
            "works as in --value-schema.",
            panel=_SCHEMA,
        ),
    ] = None
    key_schema: Annotated[
        list[str] | None,
        option(
            metavar="[TOPIC=]FILE",
            help="Schema of the keys, in the same form as --value-schema.",
            panel=_SCHEMA,
        ),
    ] = None
    key_message: Annotated[
        list[str] | None,
        option(
            metavar="[TOPIC=]NAME",
            help="Protobuf message of the keys, in the same form as --value-message.",
            panel=_SCHEMA,
        ),
    ] = None
    confluent_prefix: Annotated[
        bool,
        option(
            help="Skip the prefix that Confluent's serializers write: a 0 byte, the schema id, and Protobuf's "
            "message indexes. To decode each record with its own schema, use --registry.",
            panel=_SCHEMA,
        ),
    ] = False
    registry: Annotated[
        str | None,
        option(
            metavar="URL",
            help="Schema registry with Confluent's interface. Each record is decoded with the schema that "
            "it names, and resolved to the newest schema of its subject, which defines the columns.",
            panel=_SCHEMA,
        ),
    ] = None
    registry_login: Annotated[
        str | None,
        option(
            metavar="SOURCE",
            help="Where to get USER:PASSWORD for the registry: file:PATH, env:NAME or command:LINE.",
            panel=_SCHEMA,
        ),
    ] = None
    value_subject: Annotated[
        list[str] | None,
        option(
            metavar="[TOPIC=]SUBJECT",
            help="Subject of the values, where {topic} stands for the topic's name. Default: '{topic}-value', "
            "or bytes if the registry does not have that subject. May be repeated.",
            panel=_SCHEMA,
        ),
    ] = None
    key_subject: Annotated[
        list[str] | None,
        option(
            metavar="[TOPIC=]SUBJECT",
            help="Subject of the keys, in the same form as --value-subject. Default: '{topic}-key'.",
            panel=_SCHEMA,
        ),
    ] = None
    flatten: Annotated[
        bool, option(help="Turn the fields of typed values and keys into columns.", panel=_SCHEMA)
    ] = False
    on_error: Annotated[
        str,
        option(
            help="What to do with a record that does not match its schema. fail: export nothing; "
            "null: write null; quarantine: write the original record to separate files.",
            panel=_SCHEMA,
        ),
    ] = "fail"
    catalog_uri: Annotated[
        str | None,
        option(
            help="URL of a REST catalog, or sqlite:////PATH. Default: catalog.db in the folder of --to.",
            panel=_ICEBERG,
        ),
    ] = None
    catalog: Annotated[
        list[str] | None,
        option(
            help="A pyiceberg property of the catalog, NAME=VALUE. May be repeated.", panel=_ICEBERG
        ),
    ] = None
    catalog_name: Annotated[
        str,
        option(
            help=(
                "Name of the catalog. SQL catalogs keep their tables under "
                "this name, and .pyiceberg.yaml keeps properties under it."
            ),
            panel=_ICEBERG,
        ),
    ] = "lacuna"
    namespace: Annotated[str, option(help="Namespace of the tables.", panel=_ICEBERG)] = "lacuna"
    table_names: Annotated[
        list[str] | None,
        option(
            "--table",
            metavar="TOPIC=NAME",
            help="Name of a topic's table. Default: the topic's name, with underscores for dots. May be repeated.",
            panel=_ICEBERG,
        ),
    ] = None
    expire_snapshots: Annotated[
        str | None,
        option(
            help="After each run, delete snapshots older than this: 12h, 7d. The newest complete cut is kept.",
            panel=_ICEBERG,
        ),
    ] = None
    maintain: Annotated[
        bool,
        option(
            help="After each run, merge small files, and delete old snapshots along with the files "
            "that only they use. Without --expire-snapshots, snapshots are kept for a day.",
            panel=_ICEBERG,
        ),
    ] = False
    upsert: Annotated[
        bool,
        option(
            help="Keep one row for each key: a record replaces the key's earlier row, "
            "and a record without a value deletes the row. Implies --maintain.",
            panel=_ICEBERG,
        ),
    ] = False
    place: JobPlace
    spark: SparkOptions

    def settings(self) -> "ExportSettings":
        """Return the export's settings. Raises UserError, PipelineError."""
        from lacuna.pipeline.export.damage import ConfirmedDamage
        from lacuna.pipeline.export.job import ExportSettings

        key, value = (
            Schemas.of(name, schemas or (), messages or (), has_registry=self.registry is not None)
            for name, schemas, messages in (
                ("key", self.key_schema, self.key_message),
                ("value", self.value_schema, self.value_message),
            )
        )
        layout, layouts = self._layouts(key, value)
        damage = self.skip_damage
        maintains = self.maintain or self.upsert or (self.follow and self.format == "iceberg")
        age = self.expire_snapshots or ("1d" if maintains else None)
        catalog = {} if self.catalog_uri is None else {"uri": self.catalog_uri}
        catalog |= pairs(self.catalog or (), "is not a property: use --catalog NAME=VALUE")
        made = ExportSettings(
            to=self.to,
            format=self.format,
            layout=layout,
            layouts=layouts,
            on_error=self.on_error,
            allow_loss=self.allow_loss,
            subjects=self._subjects(key, value),
            damage=None if damage is None else ConfirmedDamage.of_report(damage),
            compression=self.compression,
            file_bytes=self.file_mib * _MEBIBYTE,
            task_bytes=self.task_mib * _MEBIBYTE,
            catalog=catalog,
            catalog_name=self.catalog_name,
            namespace=self.namespace,
            expire_ms=None
            if age is None
            else int(parse_duration(age, "--expire-snapshots") * 1000),
            merges=maintains,
            upserts=self.upsert,
            tables=pairs(self.table_names or (), "does not name a table: use --table TOPIC=NAME"),
        )
        return _checked(made)

    def _layouts(
        self, key: Schemas, value: Schemas
    ) -> "tuple[Layout, tuple[tuple[str, Layout], ...]]":
        """Return the default row layout, and the layouts of topics and patterns with schemas of their own.

        Topic names precede patterns. Raises UserError if options conflict, and PipelineError if a schema is unusable.
        """
        from lacuna.pipeline.export.job import is_pattern
        from lacuna.pipeline.export.layout import Layout

        has_prefix, is_flat = self.confluent_prefix, self.flatten
        needs_schema = has_prefix or (is_flat and self.registry is None)
        if needs_schema and not key.schemas and not value.schemas:
            option = "--confluent-prefix" if has_prefix else "--flatten"
            raise UserError(f"{option} needs a schema: add --value-schema or --key-schema")

        def layout_of(topic: str) -> Layout:
            return Layout(
                partition_by=self.partition_by,
                sort_by=tuple(filter(None, map(str.strip, self.sort_by.split(",")))),
                is_flat=is_flat,
                key=key.schema(topic, has_prefix=has_prefix),
                value=value.schema(topic, has_prefix=has_prefix),
            )

        topics = [topic for topic in {**key.schemas, **value.schemas} if topic]
        topics.sort(key=is_pattern)
        return layout_of(""), tuple((topic, layout_of(topic)) for topic in topics)

    def _subjects(self, key: Schemas, value: Schemas) -> "Subjects | None":
        """Return the registry's subjects, or None without a registry. Raises UserError."""
        login = self.registry_login
        keys, values = (
            dict(map(_by_topic, each or ())) for each in (self.key_subject, self.value_subject)
        )
        if self.registry is None:
            if login or keys or values:
                option = "--registry-login" if login else "--value-subject or --key-subject"
                raise UserError(f"{option} needs a registry: add --registry URL")
            return None
        from lacuna.pipeline.export.typed.registry import Registry, Subjects

        secret = read_secret(login, "--registry-login") if login else None
        return Subjects(
            registry=Registry(self.registry, secret),
            keys=keys,
            values=values,
            key_messages=key.messages,
            messages=value.messages,
        )
