"""The Iceberg table of a topic: found or made, what it says was exported, and one snapshot more.

Properties say whose records it holds, the summary of each of our snapshots which offsets are reached: they
come and go with the data, so that a rollback of the table rolls the export back, too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ResolveError,
    RESTError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import DayTransform, HourTransform
from pyiceberg.types import NestedField

from pipeline.errors import PipelineError
from pipeline.export.destination import Destination
from pipeline.export.errors import DestinationError, ExportRunningError
from pipeline.export.layout import NONE
from pipeline.export.opening import open_destination
from pipeline.export.runs import Identity, RunRecord

OFFSETS: Final = "lacuna.offsets"
TOKEN: Final = "lacuna.run"

_CLUSTER_ID: Final = "lacuna.cluster-id"
_TOPIC_ID: Final = "lacuna.topic-id"
_PARTITION_BY: Final = "lacuna.partition-by"
_TRANSFORMS: Final[Mapping[str, Any]] = {"day": DayTransform(), "hour": HourTransform()}
_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class TopicTable:
    """A topic's table. `identifier` is (namespace, topic)."""

    catalog: Catalog
    identifier: tuple[str, str]

    @property
    def name(self) -> str:
        """For people."""
        return ".".join(self.identifier)

    def load(self) -> Table:
        """The table as of now. Raises DestinationError."""
        with iceberg_errors(f"the table {self.name}"):
            return self.catalog.load_table(self.identifier)

    def open(self, identity: Identity, schema: pa.Schema) -> Table:
        """The table, made where there is none. Raises DestinationError where it is another's."""
        with iceberg_errors(f"the table {self.name}"):
            try:
                return self._check(self.load(), identity, schema)
            except NoSuchTableError:
                self._create(identity, schema)
            return self._check(self.load(), identity, schema)

    def commit(
        self, run: RunRecord, schema: pa.Schema, paths: Sequence[str], positions: Mapping[int, int]
    ) -> Table:
        """Adds the files and `positions` in one snapshot, on top of whatever others did meanwhile.

        Raises ExportRunningError where another export has gone on from the same offsets.
        """
        summary = {TOKEN: run.token, OFFSETS: json.dumps(positions)}
        is_unknown = False
        for attempt in range(_ATTEMPTS + 1):
            table = self.load()
            if was_committed(table, run.token):
                return table
            if offsets_of(table) != run.positions:
                raise ExportRunningError(
                    f"another export went on in the table {self.name} meanwhile: nothing of this run "
                    "was added; run it again"
                )
            if attempt == _ATTEMPTS:
                break
            with iceberg_errors(f"the table {self.name}"):
                try:
                    _append(table, run, schema, paths, summary)
                except CommitFailedException:
                    continue
                except CommitStateUnknownException:
                    is_unknown = True
                    continue
                return self.load()
        if is_unknown:
            raise DestinationError(
                f"whether the run is in the table {self.name} is not known, the catalog did not say it in "
                f"{_ATTEMPTS} attempts; run it again: it goes on behind what the table holds"
            )
        raise DestinationError(
            f"the table {self.name} is changed by others all the time: nothing was added in "
            f"{_ATTEMPTS} attempts; run it again"
        )

    def _create(self, identity: Identity, schema: pa.Schema) -> None:
        self.catalog.create_namespace_if_not_exists(self.identifier[0])
        try:
            with self.catalog.create_table_transaction(
                self.identifier, schema=schema, properties=_properties_of(identity)
            ) as transaction:
                _partition(transaction, identity.partition_by)
        except (TableAlreadyExistsError, CommitFailedException):
            return  # somebody was quicker: it is checked as any other that is there

    def _check(self, table: Table, identity: Identity, schema: pa.Schema) -> Table:
        found = table.properties
        if _TOPIC_ID not in found:
            raise DestinationError(
                f"the table {self.name} was not made by an export: choose another --namespace"
            )
        if not _has_runs(table):
            return table  # the first run makes it its own
        if found[_CLUSTER_ID] != identity.cluster_id:
            raise DestinationError(
                f"the table {self.name} holds the topic of another cluster: choose another --namespace"
            )
        if found[_TOPIC_ID] != identity.topic_id:
            raise DestinationError(
                f"topic {identity.topic} was deleted and made again since the last export to the table "
                f"{self.name}: its offsets began anew; export the new one to another --namespace"
            )
        if found[_PARTITION_BY] != identity.partition_by:
            raise DestinationError(
                f"the table {self.name} is partitioned by {found[_PARTITION_BY]}: go on with "
                f"--partition-by {found[_PARTITION_BY]}, or choose another --namespace"
            )
        try:
            table.update_schema().union_by_name(schema)  # tried only: it is not committed
        except (ResolveError, ValidationError, ValueError) as error:
            raise DestinationError(
                f"the table {self.name} has other columns: {error}; new columns may come, those that are "
                "there keep their types: choose another --namespace"
            ) from error
        return table


def _properties_of(identity: Identity) -> dict[str, str]:
    return {
        _CLUSTER_ID: identity.cluster_id,
        _TOPIC_ID: identity.topic_id,
        _PARTITION_BY: identity.partition_by,
    }


def _partition(transaction: Transaction, unit: str) -> None:
    if unit != NONE:
        with transaction.update_spec() as spec:
            spec.add_field("timestamp", _TRANSFORMS[unit], f"timestamp_{unit}")


def _has_runs(table: Table) -> bool:
    """Whether readers ever saw something in it. A run that failed leaves an empty table, which binds nobody."""
    return OFFSETS in table.properties or bool(table.snapshots())


def _take_over(
    transaction: Transaction, table: Table, identity: Identity, schema: pa.Schema
) -> None:
    """An empty table becomes one of this export: without columns and partitions that this one has not."""
    if table.properties[_PARTITION_BY] != identity.partition_by:
        with transaction.update_spec() as spec:
            for partition in table.spec().fields:
                spec.remove_field(partition.name)
        _partition(transaction, identity.partition_by)
    transaction.set_properties(_properties_of(identity))
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for column in table.schema().fields:
            if not _is_of(column, table, schema):
                update.delete_column(column.name)


def _is_of(column: NestedField, table: Table, schema: pa.Schema) -> bool:
    """Whether the table's column is just what the schema says."""
    if column.name not in schema.names:
        return False
    wanted = pa.schema([schema.field(column.name)])
    try:
        return pyarrow_to_schema(wanted, table.schema().name_mapping).fields == (column,)
    except ValueError:  # it has fields that the column has not
        return False


def _append(
    table: Table,
    run: RunRecord,
    schema: pa.Schema,
    paths: Sequence[str],
    summary: Mapping[str, str],
) -> None:
    # pyiceberg would repeat a refused commit by itself. Offsets have to be looked at again before that:
    # in this copy of the metadata, which nobody commits, it is told not to.
    table.metadata.properties["commit.retry.num-retries"] = "0"
    with table.transaction() as transaction:
        if not _has_runs(table):
            _take_over(transaction, table, run, schema)
        transaction.set_properties({OFFSETS: summary[OFFSETS]})
        with transaction.update_schema() as update:
            update.union_by_name(schema)
        transaction.add_files(
            list(paths), snapshot_properties=dict(summary), check_duplicate_files=False
        )


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """The catalog that pyiceberg's properties describe. Raises DestinationError."""
    where = properties.get("uri") or properties.get("type") or name
    with iceberg_errors(f"the catalog {where}"):
        return load_catalog(name, **properties)


def offsets_of(table: Table) -> Mapping[int, int]:
    """Next offsets to export, by partition: those of our newest snapshot in the table's history.

    Where maintenance has expired that, those that the table itself remembers. {} before the first run, and
    where the table was rolled back to before it.
    """
    remembered = table.properties.get(OFFSETS, "{}")
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if snapshot.summary is not None and (text := snapshot.summary.get(OFFSETS)):
            return _offsets(text)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
        if parent is not None and snapshot is None:
            return _offsets(remembered)
    is_rolled_back = any(
        other.summary is not None and other.summary.get(OFFSETS) for other in table.snapshots()
    )
    return {} if is_rolled_back else _offsets(remembered)


def _offsets(text: str) -> Mapping[int, int]:
    return {int(key): end for key, end in json.loads(text).items()}


def was_committed(table: Table, token: str) -> bool:
    """Whether the run's snapshot is one of the table's."""
    return any(
        snapshot.summary is not None and snapshot.summary.get(TOKEN) == token
        for snapshot in table.snapshots()
    )


def has_files_of(table: Table, token: str) -> bool:
    """Whether any snapshot that is left has files of the run, also where the run's own has expired."""
    if not any(snapshot.manifests(table.io) for snapshot in table.snapshots()):
        return False  # all of its runs were of empty topics, and pyiceberg cannot list no files
    paths = table.inspect.all_data_files().column("file_path")
    return bool(pc.any(pc.match_substring(paths, f"/{token}/")).as_py())


def destination_of(table: Table) -> Destination:
    """Where the table's files go."""
    location = table.location()
    if urlsplit(location).scheme not in ("s3", "file", ""):
        raise DestinationError(
            f"the table's files are at {location}: an export writes to s3:// and file:// alone"
        )
    known = table.io.properties
    options = {
        name: str(known[f"s3.{name}"]) for name in ("endpoint", "region") if f"s3.{name}" in known
    }
    if location.startswith("s3://") and options:
        location = f"{location}?{urlencode(options)}"
    return open_destination(location)


def catalog_properties(to: str, given: Mapping[str, str]) -> dict[str, str]:
    """pyiceberg's properties: what was given, and what `to`, the warehouse's URL, says.

    A folder without a catalog gets one of its own, `catalog.db` in SQLite.
    """
    if not to:
        return dict(given)
    destination = open_destination(to)
    parts = urlsplit(destination.url)
    root = destination.uri("").rstrip("/")
    has_catalog = "uri" in given or "type" in given
    if parts.scheme == "s3":
        if not has_catalog:
            raise PipelineError(
                "an Iceberg table in a bucket needs a catalog: name one with --catalog-uri, a REST "
                "catalog's URL or sqlite:////PATH"
            )
        options = {f"s3.{name}": value for name, value in parse_qsl(parts.query)}
        return {"warehouse": root, **options, **given}
    found = {"warehouse": f"file://{root}", **given}
    if not has_catalog:
        destination.check()
        found["uri"] = f"sqlite:///{root}/catalog.db"
    return found


@contextmanager
def iceberg_errors(what: str) -> Iterator[None]:
    """Errors of catalogs and their services in one line; what the callers look for goes through."""
    import requests
    import sqlalchemy.exc

    try:
        yield
    except (NoSuchTableError, CommitFailedException, CommitStateUnknownException):
        raise
    except (
        OSError,
        ValueError,
        RESTError,
        requests.RequestException,
        sqlalchemy.exc.SQLAlchemyError,
    ) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DestinationError(f"{what}: {first}") from error
