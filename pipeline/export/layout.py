"""Columns of the exported files, and the folders that they stand in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pipeline.export.errors import DestinationError
from pipeline.export.typed.decoding import decoder_of
from pipeline.export.typed.schema import TypedSchema

NONE: Final = "none"
PARTITIONINGS: Final = (NONE, "day", "hour")

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
)

#: What a folder is called whose partition value is null, as Hive has it.
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"

_FRONT: Final = (
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", TIMESTAMP),
    pa.field("timestamp_type", pa.int32(), nullable=False),
)
#: Columns that Hive's folders bring.
_FOLDERS: Final = ("topic", "run", "day", "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How records become rows; can be pickled. Without a schema keys and values are bytes.

    `is_flat`: the fields of a typed key or value are columns of their own.
    """

    partition_by: str = NONE
    key: TypedSchema | None = None
    value: TypedSchema | None = None
    is_flat: bool = False

    def schema(self) -> pa.Schema:
        """The columns. Raises DestinationError for two of one name."""
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
                raise DestinationError(f"two columns would be called {name!r}: leave --flatten out")
            reserved.discard(name)
        return pa.schema(fields)

    def fields(self, name: str, schema: TypedSchema | None) -> list[pa.Field]:
        """The columns that a key or value becomes.

        Flattened fields of a key get `key_` in front; those of a value where the name is taken else.
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
    """The types of all columns and of the fields within them, by their path."""
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
    """The folder of a record: `hour` is its time in whole hours since 1970 UTC, None without a time."""
    if partition_by == NONE:
        return ""
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
