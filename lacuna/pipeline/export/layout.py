"""The columns of exported files, and the folders in which these files are placed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from lacuna.pipeline.errors import DestinationError
from lacuna.pipeline.export.typed.schema import TypedSchema, decoder_of

NONE: Final = "none"
PARTITIONINGS: Final = (NONE, "day", "hour")

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)

#: Hive's name for the folder of rows whose partition value is null.
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"

_FRONT: Final = (
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", TIMESTAMP),
    pa.field("timestamp_type", pa.int32(), nullable=False),
)
#: Columns whose values readers take from folder names, as in Hive.
_FOLDERS: Final = ("topic", "run", "day", "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The rules for turning records into rows. Can be pickled. Keys and values without a schema are bytes.

    With `is_flat`, each field of a typed key or value becomes a column. Rows that are written together are sorted by
    the columns in `sort_by`.
    """

    partition_by: str = NONE
    sort_by: tuple[str, ...] = ()
    key: TypedSchema | None = None
    value: TypedSchema | None = None
    is_flat: bool = False

    def schema(self) -> pa.Schema:
        """Returns the columns of the files. Raises DestinationError if two would have the same name."""
        fields = [
            *_FRONT,
            *self.fields("key", self.key),
            *self.fields("value", self.value),
            pa.field("headers", HEADERS),
        ]
        names = [field.name for field in fields]
        reserved = {*names, *_FOLDERS}
        for name in names:
            if name not in reserved:
                raise DestinationError(f"two columns would be called {name!r}: leave out --flatten")
            reserved.discard(name)
        return pa.schema(fields)

    def check_sorting(self) -> None:
        """Raises DestinationError if a column in `sort_by` does not exist, or has values without an order."""
        schema = self.schema()
        for name in self.sort_by:
            if name not in schema.names:
                raise DestinationError(
                    f"--sort-by: there is no column {name!r}: the columns are {', '.join(schema.names)}"
                )
            if pa.types.is_nested(schema.field(name).type):
                raise DestinationError(
                    f"--sort-by: rows cannot be sorted by the column {name!r}: choose a different one, or add --flatten"
                )

    def key_column(self) -> str:
        """Returns the name of the key's only column. Raises DestinationError if keys are structs, lists or maps."""
        found = self.fields("key", self.key)
        if len(found) == 1 and not pa.types.is_nested(found[0].type):
            return str(found[0].name)
        flat = replace(self, is_flat=True).fields("key", self.key)
        if len(flat) == 1 and not pa.types.is_nested(flat[0].type):
            raise DestinationError(
                "--upsert: the key is a record with one field: add --flatten, so that the field becomes a column"
            )
        is_registered = self.key is not None and self.key.registry is not None
        raise DestinationError(
            "--upsert: keys must be single values, but the key's schema has several fields, a list or a map: "
            + (
                "export without --registry, so that keys stay bytes; --value-schema with --confluent-prefix still "
                "reads the values"
                if is_registered
                else "leave out the key's schema, so that keys stay bytes"
            )
        )

    def fields(self, name: str, schema: TypedSchema | None) -> list[pa.Field]:
        """Returns the columns for the "key" or "value" (`name`).

        With flattening, a key's fields get the prefix `key_`; those of a value get `value_` if their names are taken.
        """
        if schema is None:
            return [pa.field(name, pa.binary())]
        kind = decoder_of(schema).type
        if not self.is_flat or not pa.types.is_struct(kind):
            return [pa.field(name, kind)]
        taken = {*(field.name for field in _FRONT), *_FOLDERS, "key", "headers"}
        return [
            pa.field(
                f"{name}_{field.name}" if name == "key" or field.name in taken else field.name,
                field.type,
            )
            for field in kind
        ]


def leaf_columns(schema: pa.Schema) -> dict[str, str]:
    """Returns the types of all columns, and of the fields nested in them, by path."""
    return dict(leaf for field in schema for leaf in _leaves(field.name, field.type))


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, str]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield f"{path}.key", str(kind.key_type)
        yield from _leaves(f"{path}.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.element", kind.value_type)
    else:
        yield path, str(kind)


def time_folder(partition_by: str, hour: int | None) -> str:
    """Returns the folder for a record, with a trailing slash.

    `hour` is the record's time in whole hours since 1970 UTC, or None if it has no timestamp.
    """
    names = ("day",) if partition_by == "day" else ("day", "hour")
    values: Mapping[str, str]
    if hour is None:
        values = dict.fromkeys(names, NULL_FOLDER)
    else:
        days, rest = divmod(hour, 24)
        values = {"day": _date(days), "hour": f"{rest:02d}"}
    return "".join(f"{name}={values[name]}/" for name in names)


def _date(days: int) -> str:
    return str(pa.scalar(days, pa.int32()).cast(pa.date32()).as_py())
