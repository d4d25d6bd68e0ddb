"""`lacuna sql`: queries topics with SQL."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any

from lacuna.cli.command_line import argument, option
from lacuna.cli.console import table
from lacuna.cli.errors import fail
from lacuna.cli.location import locate
from lacuna.cli.options import JobPlace


def sql(
    statement: Annotated[
        str,
        argument(
            help="A statement in DuckDB's SQL, in which topics are tables, such as 'SELECT count(*) FROM orders'."
        ),
    ],
    at: Annotated[
        str | None,
        option(
            metavar="TIME",
            help="Read the topics as they were at this time, up to one cut: 2026-11-26T13:00, milliseconds since 1970, "
            "or -15m for fifteen minutes ago.",
        ),
    ] = None,
    *,
    place: JobPlace,
) -> None:
    """Runs an SQL query over topics with DuckDB, on the committed records in the bucket.

    Each topic is a table with the columns topic, partition, "offset" (write it in quotes), timestamp, timestamp_type,
    key, value and headers. All topics in a statement are read up to one cut, which splits no transaction. Keys and
    values are BLOBs; decode(value) converts a BLOB to text. Put a topic's name in quotes if it contains a dot or a
    hyphen. COPY writes a result to a file.
    """
    try:
        from lacuna.pipeline.reading import Source
        from lacuna.pipeline.sql import answer
    except ModuleNotFoundError:
        fail("sql needs DuckDB and pyarrow: pip install 'lacuna-log[sql]'")
    source = Source(locate(place, needs_control=place.store is None))
    with answer(source, statement, as_of=at) as found:
        names = [column[0] for column in found.description or ()]
        table(names, _rows(found))


def _rows(found: Any) -> Iterator[Iterable[object]]:
    while rows := found.fetchmany(1000):
        for row in rows:
            yield map(_shown, row)


def _shown(value: Any) -> object:
    """Convert a value to text, unless it is a number, boolean or null. Bytes that are not UTF-8 are escaped."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float) else str(value)
