"""SQL over topics, using DuckDB: each topic named in a statement is a table with the columns of `lacuna.read`."""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from operator import eq, ge, gt, le, lt
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from lacuna.logstore.objects import ObjectStore
from lacuna.pipeline.decoding import Bounds
from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.metadata import CONTROL, MetadataSource
from lacuna.pipeline.reading import (
    TRANSACTIONS,
    Query,
    Source,
    Time,
    hold_of,
    no_topic,
    spans_of,
)
from lacuna.pipeline.record_batches import COLUMNS, Span, record_batches
from lacuna.pipeline.stores import shared_store

#: With milliseconds, DuckDB would truncate the constants in conditions.
_COLUMNS: Final = pa.schema(
    [
        field.with_type(pa.timestamp("us", "UTC")) if field.name == "timestamp" else field
        for field in COLUMNS
    ]
)
_log = logging.getLogger("lacuna.pipeline")

_NO_TABLE: Final = re.compile(r'Table with name "?(?P<name>.+?)"? does not exist')
#: Parts of a condition's text: strings, operators other than "and", and comparisons with constants.
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_OTHER: Final = re.compile(r" or |if_else|invert|null")
_COMPARISON: Final = re.compile(r"\((offset|partition|timestamp) (==|<=?|>=?) ([^()]+)\)")
_COMPARE: Final = {"==": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
_BARE_OFFSET: Final = re.compile(r'(?<!")\boffset\b(?!")', re.IGNORECASE)


@contextmanager
def answer(source: Source, statement: str, *, as_of: Time | None = None) -> Iterator[Any]:
    """Runs a statement, and yields DuckDB's connection, which holds the result. Objects stay pinned until the block
    ends.

    All topics are read up to one cut, which splits no transaction: the current one, or the one at `as_of`. With
    metadata from the bucket, `as_of` shows what consumers could see at that time, which may be part of a transaction.
    Raises PipelineError, including for statements that DuckDB rejects, and the same errors as `lacuna.read`.
    """
    duckdb = _duckdb()
    with ExitStack() as stack:
        metadata = stack.enter_context(closing(source.open()))
        stack.enter_context(hold_of(metadata))
        known = metadata.topics()
        tables = _tables(source, metadata, _named_in(statement, known), as_of)
        connection = stack.enter_context(closing(duckdb.connect()))
        for name, table in tables.items():
            connection.register(name, table)
        try:
            connection.execute(statement)
            yield connection
        except duckdb.Error as error:
            missing = _NO_TABLE.search(str(error))
            if missing:
                found = no_topic(missing["name"], known, metadata.whose)
                raise PipelineError(found) from error
            raise PipelineError(_explained(str(error), statement)) from error


def _duckdb() -> Any:
    try:
        import duckdb
    except ModuleNotFoundError:
        raise PipelineError("SQL needs DuckDB: pip install 'lacuna-log[sql]'") from None
    return duckdb


def _named_in(statement: str, topics: Iterable[str]) -> list[str]:
    """Returns the topics that a statement may name. Raises PipelineError if SQL cannot distinguish two of them."""
    found: dict[str, str] = {}
    for name in topics:
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", statement):
            other = found.setdefault(name.lower(), name)
            if other != name:
                raise PipelineError(
                    f"SQL cannot distinguish the topics {other!r} and {name!r}, because SQL names are not "
                    "case-sensitive: read them with lacuna.read"
                )
    return list(found.values())


def _tables(
    source: Source, metadata: MetadataSource, topics: Sequence[str], as_of: Time | None
) -> dict[str, "_Table"]:
    if not topics:
        return {}
    # A metadata snapshot in the bucket contains no cuts of past times.
    has_cut = as_of is None or source.metadata == CONTROL
    if not has_cut:
        _log.warning(
            "as_of: this reads what consumers could see at that time, so it may include only part of a "
            "transaction; to read up to a cut instead, specify the control plane"
        )
    query = Query.of(topics, as_of=as_of, cut=TRANSACTIONS if has_cut else None)
    spans = spans_of(source, metadata, query)
    store = shared_store(source.location.store)
    return {
        topic: _Table(
            store, metadata.cluster_id, [each for each in spans if each.log.topic == topic]
        )
        for topic in topics
    }


class _Table(ds.Dataset):  # type: ignore[misc]
    """The records of a topic, as a dataset that DuckDB can scan several times, for just the columns that it needs.

    DuckDB uses only `schema` and `scanner`, and relies on the scanner to apply the filter.
    """

    def __init__(self, store: ObjectStore, cluster_id: str, spans: Sequence[Span]) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._spans = spans

    @property
    def schema(self) -> pa.Schema:
        return _COLUMNS

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,  # noqa: A002 - DuckDB's name
        **_: Any,
    ) -> ds.Scanner:
        needed = pa.schema([_COLUMNS.field(name) for name in _needed(columns, filter)])
        spans = narrowed(self._spans, filter)
        batches = record_batches(self._store, self._cluster_id, spans, needed)
        return ds.Scanner.from_batches(batches, schema=needed, columns=columns, filter=filter)


def _needed(columns: Iterable[str] | None, condition: ds.Expression | None) -> list[str]:
    text = str(condition)
    wanted = COLUMNS.names if columns is None else set(columns)
    needed = [name for name in COLUMNS.names if name in wanted or name in text]
    return needed or ["offset"]


def narrowed(spans: Iterable[Span], condition: ds.Expression | None) -> list[Span]:
    """Narrows the spans, using a condition's comparisons of partitions, offsets and timestamps with constants.

    Only the text of the condition is available. If it contains anything but comparisons joined by "and", nothing is
    narrowed.
    """
    text = _TEXT.sub("", str(condition))
    if _OTHER.search(text):
        return list(spans)
    found = list(spans)
    for name, comparison, constant in _COMPARISON.findall(text):
        if name == "partition":
            compare = _COMPARE[comparison]
            found = [span for span in found if compare(span.log.partition, int(constant))]
        else:
            found = [
                replace(span, bounds=_within(span.bounds, name, comparison, constant))
                for span in found
            ]
    return found


def _within(bounds: Bounds, name: str, comparison: str, constant: str) -> Bounds:
    """Narrows the bounds, using a comparison of the column `name`. They may be slightly wider than necessary."""
    is_time = name == "timestamp"
    number = (
        round(datetime.fromisoformat(constant).timestamp() * 1000) if is_time else int(constant)
    )
    least, most = ("min_timestamp", "max_timestamp") if is_time else ("first_offset", "end_offset")
    if comparison in (">", ">=", "=="):
        bounds = replace(bounds, **{least: max(getattr(bounds, least), number)})
    if comparison in ("<", "<=", "=="):
        end = number if is_time else number + 1  # an end is exclusive
        bounds = replace(bounds, **{most: min(getattr(bounds, most), end)})
    return bounds


def _explained(message: str, statement: str) -> str:
    if message.startswith("Parser Error") and _BARE_OFFSET.search(statement):
        return f'{message}: offset is a reserved word of DuckDB\'s SQL, so write "offset" for the column'
    return message
