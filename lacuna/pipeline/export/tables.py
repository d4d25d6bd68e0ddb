"""The Iceberg table of a topic: opens or creates the table, reads the exported offsets, and adds snapshots.

The table's properties name the topic that it contains. The summary of each of Lacuna's snapshots contains the offsets
that the export has reached. Since these are stored with the data, rolling back the table rolls back the export too.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode, urlsplit

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
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import NestedField

from lacuna.logstore.objects.directory import DIRECTORY
from lacuna.logstore.objects.url import EXPORT_FORMS, KINDS
from lacuna.pipeline.errors import DestinationError, ExportRunningError, PipelineError
from lacuna.pipeline.export.cuts import RunCut
from lacuna.pipeline.export.destination import Destination
from lacuna.pipeline.export.job import ExportSettings
from lacuna.pipeline.export.opening import open_destination
from lacuna.pipeline.export.partitioning import data_file_of, partition
from lacuna.pipeline.export.runs import Identity, RunRecord
from lacuna.pipeline.export.upserts import Deletes, Upserts, upsert

OFFSETS: Final = "lacuna.offsets"
SKIPPED: Final = "lacuna.skipped"
CUT: Final = "lacuna.cut"
CUT_MS: Final = "lacuna.cut.at-ms"
CUT_TOPICS: Final = "lacuna.cut.topics"
TOKEN: Final = "lacuna.run"  # noqa: S105 - the name of a property

_CLUSTER_ID: Final = "lacuna.cluster-id"
_TOPIC: Final = "lacuna.topic"
_TOPIC_ID: Final = "lacuna.topic-id"
_PARTITION_BY: Final = "lacuna.partition-by"
_UPSERTS: Final = "lacuna.upserts"
#: Each run writes a metadata file and a manifest. Beyond this number, old metadata files are deleted and manifests
#: are merged.
_MAINTENANCE: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
}
ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class TopicTable:
    """The Iceberg table of a topic. `identifier` is (namespace, table)."""

    catalog: Catalog
    identifier: tuple[str, str]

    @property
    def name(self) -> str:
        """The table's display name, NAMESPACE.TABLE."""
        return ".".join(self.identifier)

    def load(self) -> Table:
        """Returns the current state of the table. Raises NoSuchTableError, DestinationError."""
        with iceberg_errors(f"the table {self.name}"):
            return self.catalog.load_table(self.identifier)

    def reload(self) -> Table:
        """Returns the current state of a table that has been opened before. Raises DestinationError."""
        try:
            return self.load()
        except NoSuchTableError as error:
            raise DestinationError(
                f"the table {self.name} was dropped during the run: run the export again"
            ) from error

    def open(self, identity: Identity, schema: pa.Schema) -> Table:
        """Opens the table or creates it. Raises DestinationError if it does not match this export."""
        with iceberg_errors(f"the table {self.name}"):
            try:
                return self._check(self.load(), identity, schema)
            except NoSuchTableError:
                self._create(identity, schema)
            return self._check(self.load(), identity, schema)

    def find(self, run: RunRecord) -> tuple[Table, bool]:
        """Returns the current state of the table, and whether it contains the snapshot of the run.

        Raises DestinationError, and ExportRunningError if another export has continued from the same offsets.
        """
        table = self.reload()
        if snapshot_of(table, run.token) is not None:
            return table, True
        if offsets_of(table) != run.positions:
            raise ExportRunningError(
                f"another export wrote to the table {self.name} at the same time: nothing from this run "
                "was added; run it again"
            )
        return table, False

    def _create(self, identity: Identity, schema: pa.Schema) -> None:
        self.catalog.create_namespace_if_not_exists(self.identifier[0])
        try:
            with self.catalog.create_table_transaction(
                self.identifier,
                schema=schema,
                properties={**_MAINTENANCE, **_properties_of(identity)},
            ) as transaction:
                partition(transaction, identity.partition_by)
        except (TableAlreadyExistsError, CommitFailedException):
            return  # another export was faster; its table is checked like any other

    def _check(self, table: Table, identity: Identity, schema: pa.Schema) -> Table:
        found = table.properties
        if _TOPIC_ID not in found:
            raise DestinationError(
                f"the table {self.name} was not created by an export: choose a different --namespace"
            )
        if not _has_runs(table):
            return table  # the first run adapts it
        if found[_CLUSTER_ID] != identity.cluster_id:
            raise DestinationError(
                f"the table {self.name} contains a topic of a different cluster: choose a different --namespace"
            )
        if found[_TOPIC] != identity.topic:
            raise DestinationError(
                f"the table {self.name} contains the topic {found[_TOPIC]}: specify a different table for "
                f"{identity.topic} with "
                f"--table {identity.topic}=NAME"
            )
        if found[_TOPIC_ID] != identity.topic_id:
            raise DestinationError(
                f"topic {identity.topic} has been deleted and recreated since the last export to the "
                f"table {self.name}, so its offsets started again at 0; export the new topic to a different --namespace"
            )
        if found[_PARTITION_BY] != identity.partition_by:
            raise DestinationError(
                f"the table {self.name} is partitioned by {found[_PARTITION_BY]}: continue with "
                f"--partition-by {found[_PARTITION_BY]}, or choose a different --namespace"
            )
        if (column := found.get(_UPSERTS, "")) != identity.upserts:
            raise DestinationError(
                f"the table {self.name} has a row for each {_difference(column, identity.upserts)}, or choose another "
                "--namespace"
            )
        try:
            table.update_schema().union_by_name(schema)  # a trial, which is not committed
        except (ResolveError, ValidationError, ValueError) as error:
            raise DestinationError(
                f"the table {self.name} has different columns: {error}; columns may be added, but existing "
                "ones must keep their types: choose a different --namespace"
            ) from error
        return table


def _difference(old: str, new: str) -> str:
    """Returns the end of a message: what rows stand for and how to continue. `old` and `new` are key columns, or ""."""
    if not old:
        return "record: leave out --upsert"
    if not new:
        return "key: add --upsert"
    return (
        f"value of the column {old!r}, but the key would be in the column {new!r}: read keys as before, with the same "
        "--flatten, --key-schema and --registry"
    )


def _properties_of(identity: Identity) -> dict[str, str]:
    return {
        _CLUSTER_ID: identity.cluster_id,
        _TOPIC: identity.topic,
        _TOPIC_ID: identity.topic_id,
        _PARTITION_BY: identity.partition_by,
        _UPSERTS: identity.upserts,
    }


def _has_runs(table: Table) -> bool:
    """Whether anything was ever committed to the table. The empty table of a failed first run may be adapted."""
    return OFFSETS in table.properties or bool(table.snapshots())


def _take_over(
    transaction: Transaction, table: Table, identity: Identity, schema: pa.Schema
) -> None:
    """Adapts an empty table to this export: sets its properties and partitioning, and drops other columns."""
    if table.properties[_PARTITION_BY] != identity.partition_by:
        with transaction.update_spec() as spec:
            for each in table.spec().fields:
                spec.remove_field(each.name)
        partition(transaction, identity.partition_by)
    transaction.set_properties(_properties_of(identity))
    with transaction.update_schema(allow_incompatible_changes=True) as update:
        for column in table.schema().fields:
            if not _is_of(column, table, schema):
                update.delete_column(column.name)


def _is_of(column: NestedField, table: Table, schema: pa.Schema) -> bool:
    if column.name not in schema.names:
        return False
    wanted = pa.schema([schema.field(column.name)])
    try:
        return pyarrow_to_schema(wanted, table.schema().name_mapping).fields == (column,)
    except ValueError:  # the schema contains fields that the column lacks
        return False


@dataclass(frozen=True, slots=True)
class Change:
    """The snapshot that a run adds: the files at `paths`, and the offsets that the run has reached.

    With `upserts`, the snapshot also deletes the rows that the run replaces.
    """

    into: TopicTable
    run: RunRecord
    schema: pa.Schema
    paths: Sequence[str]
    cut: RunCut
    upserts: Upserts | None = None

    def commit(self) -> Table:
        """Adds the snapshot on top of any concurrent changes, and returns the table.

        Raises ExportRunningError if another export has continued from the same offsets, and DestinationError if the
        snapshot was not, or may not have been, added.
        """
        return until_committed(
            f"the table {self.into.name}", lambda: self.into.find(self.run), self.append
        )

    def look_up(self) -> None:
        """Finds the rows to replace, so that the commit need not do so. Raises ExportRunningError, DestinationError."""
        if self.upserts is None:
            return
        table, is_done = self.into.find(self.run)
        if not is_done:
            with iceberg_errors(f"the table {self.into.name}"):
                _begin(table, self)

    def append(self, table: Table) -> None:
        """Tries to add the snapshot. Raises CommitFailedException, CommitStateUnknownException, DestinationError."""
        _append(table, self)

    def summary(self) -> dict[str, str]:
        summary = {
            TOKEN: self.run.token,
            OFFSETS: json.dumps(self.run.committed().positions),
            CUT: self.cut.id,
            CUT_MS: str(self.cut.at_ms),
            CUT_TOPICS: str(len(self.cut.topics)),
        }
        if self.run.skipped:
            summary[SKIPPED] = json.dumps([asdict(each) for each in self.run.skipped])
        return summary


def until_committed(
    what: str, find: Callable[[], tuple[Table, bool]], attempt: Callable[[Table], None]
) -> Table:
    """Calls `attempt` until `find` finds the snapshot in the table, and returns the table.

    `what` names the table in errors. Raises DestinationError if the snapshot was not, or may not have been, added.
    """
    is_unknown = False
    for number in range(ATTEMPTS + 1):
        table, is_done = find()
        if is_done:
            return table
        if number == ATTEMPTS:
            break
        with iceberg_errors(what):
            try:
                attempt(table)
            except CommitFailedException:
                continue
            except CommitStateUnknownException:
                is_unknown = True
    raise not_committed(what, is_unknown=is_unknown)


def not_committed(what: str, *, is_unknown: bool) -> DestinationError:
    if is_unknown:
        return DestinationError(
            f"it is not known whether the run was committed to {what}, because the catalog did not answer in "
            f"{ATTEMPTS} attempts; run the export again: it continues from the table's actual state"
        )
    return DestinationError(
        f"other writers keep changing {what}, so nothing was added in {ATTEMPTS} attempts; run the export again"
    )


def _append(table: Table, change: Change) -> None:
    # pyiceberg would retry a rejected commit by itself, but the offsets must be checked again first. This copy of the
    # metadata, which is never committed, therefore turns retries off.
    table.metadata.properties["commit.retry.num-retries"] = "0"
    transaction, files, deletes = _begin(table, change)
    with transaction:
        producer = (
            transaction._append_snapshot_producer(change.summary())
            if deletes is None
            else upsert(transaction, table.io, change.summary(), deletes)
        )
        with producer as append:
            for file in files:
                append.append_data_file(file)


def _begin(table: Table, change: Change) -> tuple[Transaction, list[DataFile], Deletes | None]:
    transaction = table.transaction()
    if not _has_runs(table):
        _take_over(transaction, table, change.run, change.schema)
    transaction.set_properties({OFFSETS: change.summary()[OFFSETS]})
    with transaction.update_schema() as update:
        update.union_by_name(change.schema)
    if transaction.table_metadata.name_mapping() is None:  # the files have no field ids
        mapping = transaction.table_metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    metadata = transaction.table_metadata
    files = [data_file_of(table.io, metadata, path) for path in change.paths]
    if change.upserts is None:
        return transaction, files, None
    return transaction, files, change.upserts.deletes(table, metadata, files)


def catalog_of(settings: ExportSettings) -> Catalog:
    """Opens the catalog of an export. Raises DestinationError, PipelineError."""
    properties = catalog_properties(settings.to, settings.catalog)
    return open_catalog(settings.catalog_name, properties)


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """Opens a catalog with these pyiceberg properties. It stays open for later runs. Raises DestinationError."""
    where = properties.get("uri") or properties.get("type") or name
    with iceberg_errors(f"the catalog {where}"):
        return _catalog(name, frozenset(properties.items()))


@lru_cache(maxsize=8)
def _catalog(name: str, properties: frozenset[tuple[str, str]]) -> Catalog:
    return load_catalog(name, **dict(properties))


def offsets_of(table: Table) -> Mapping[int, int]:
    """Returns the next offsets to export, by partition, from the newest export snapshot in the table's history.

    If maintenance has expired that snapshot, they come from the table's properties. Before the first run, or after a
    rollback to that state, there are none.
    """
    remembered = table.properties.get(OFFSETS, "{}")
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if text := in_summary(snapshot, OFFSETS):
            return _offsets(text)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
        if parent is not None and snapshot is None:
            return _offsets(remembered)
    is_rolled_back = any(in_summary(other, OFFSETS) for other in table.snapshots())
    return {} if is_rolled_back else _offsets(remembered)


def offsets_summary(table: Table) -> dict[str, str]:
    """Returns the summary for a snapshot that changes no rows, so that the offsets stay the same."""
    return {OFFSETS: json.dumps(dict(offsets_of(table)))}


def _offsets(text: str) -> Mapping[int, int]:
    return {int(key): end for key, end in json.loads(text).items()}


def in_summary(snapshot: Snapshot | None, name: str) -> str | None:
    """Returns a property from a snapshot's summary, or None."""
    return None if snapshot is None or snapshot.summary is None else snapshot.summary.get(name)


def snapshot_of(table: Table, token: str) -> int | None:
    """Returns the id of the snapshot that the run with this token added, or None if the table does not contain it."""
    found = (each.snapshot_id for each in table.snapshots() if in_summary(each, TOKEN) == token)
    return next(found, None)


def files_of(table: Table, token: str) -> set[str]:
    """Returns the run's data and delete files that any remaining snapshot contains, relative to the run's folder.

    They may be in later snapshots even if the run's own has expired.
    """
    if not any(snapshot.manifests(table.io) for snapshot in table.snapshots()):
        return set()  # every run was empty, and pyiceberg fails if there are no files to list
    paths = table.inspect.all_files().column("file_path")
    own = paths.filter(pc.match_substring(paths, f"/{token}/")).to_pylist()
    return {path.partition(f"/{token}/")[2] for path in own}


def destination_of(table: Table) -> Destination:
    """Returns the destination for the table's files. Raises DestinationError if they are not in a bucket or folder."""
    location = table.location()
    kind = KINDS.get(urlsplit(location).scheme or DIRECTORY.scheme)
    if kind is None or not kind.takes_exports:
        raise DestinationError(
            f"the table's files are at {location}: an export can write only to {EXPORT_FORMS}"
        )
    known = table.io.properties
    names = kind.others.catalog.items() if kind.others else ()
    options = urlencode({name: str(known[there]) for name, there in names if there in known})
    return open_destination(location + f"?{options}" * bool(options))


def catalog_properties(to: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the pyiceberg properties of the catalog: the given ones, and those derived from the warehouse URL `to`.

    If no catalog is given, a warehouse in a folder gets an SQLite catalog in its file `catalog.db`, and PipelineError
    is raised for a warehouse in a bucket.
    """
    if not to:
        return dict(given)
    destination = open_destination(to)
    properties = {**destination.catalog, **given}
    if "uri" in given or "type" in given:
        return properties
    if destination.own_catalog is None:
        raise PipelineError(
            "an Iceberg table in a bucket needs a catalog: specify one with --catalog-uri, as a REST catalog's URL or sqlite:////PATH"
        )
    destination.check()
    return {**properties, "uri": destination.own_catalog}


@contextmanager
def iceberg_errors(what: str) -> Iterator[None]:
    """Turns catalog errors in the block into a one-line DestinationError that begins with `what`.

    NoSuchTableError, CommitFailedException and CommitStateUnknownException pass unchanged, since callers handle them.
    """
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
