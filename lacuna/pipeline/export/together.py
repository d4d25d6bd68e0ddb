"""Makes the snapshots of several tables visible together, and maintains the table of complete cuts.

A REST catalog can commit several tables in one step. With other catalogs, they are committed one after another, and the
table of cuts last; readers look up the snapshots of the newest complete cut there.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import requests
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import Endpoint, HttpMethod, RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableRequest, Namespace, Table, TableIdentifier
from pyiceberg.table.update import TableRequirement, TableUpdate

from lacuna.pipeline.errors import DestinationError, PipelineError
from lacuna.pipeline.export.cuts import CUTS, MOST_CUTS, CompleteCut
from lacuna.pipeline.export.job import ExportSettings
from lacuna.pipeline.export.tables import (
    ATTEMPTS,
    TOKEN,
    Change,
    TopicTable,
    catalog_of,
    iceberg_errors,
    in_summary,
    not_committed,
    snapshot_of,
    until_committed,
)

_PATH: Final = "transactions/commit"
_COMMIT_TOGETHER: Final = Endpoint(http_method=HttpMethod.POST, path=f"/v1/{{prefix}}/{_PATH}")
#: The statuses with which a catalog shows that it has no multi-table transactions, whatever its configuration says.
_CANNOT: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.NOT_ACCEPTABLE,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)

Committed = Table | PipelineError
_Result = TypeVar("_Result")


class _CannotCommitTogether(Exception):
    """The catalog has no multi-table transactions. Nothing was committed."""


def commit_all(changes: Mapping[str, Change]) -> dict[str, Committed]:
    """Commits the changes, and returns, by topic, the table or the error of its commit.

    They are committed together if the catalog supports that. Otherwise, they are committed one after another, after the
    slow work for all of them has been done.
    """
    catalogs = [change.into.catalog for change in changes.values()]
    catalog = catalogs[0] if len(catalogs) > 1 else None
    if isinstance(catalog, RestCatalog) and _COMMIT_TOGETHER in catalog._supported_endpoints:
        try:
            return _commit_together(catalog, changes)
        except _CannotCommitTogether:
            pass
    failed = {
        topic: error
        for topic, change in changes.items()
        if isinstance(error := _outcome(change.look_up), PipelineError)
    }
    return {
        topic: failed[topic] if topic in failed else _outcome(change.commit)
        for topic, change in changes.items()
    }


def _outcome(step: Callable[[], _Result]) -> _Result | PipelineError:
    try:
        return step()
    except PipelineError as error:
        return error


def _commit_together(catalog: RestCatalog, changes: Mapping[str, Change]) -> dict[str, Committed]:
    """Repeats the commit until all tables have their snapshots, except tables for which that is impossible."""
    found: dict[str, Committed] = {}
    is_unknown = False
    for number in range(ATTEMPTS + 1):
        left: dict[str, CommitTableRequest] = {}
        for topic in changes.keys() - found.keys():
            change = changes[topic]
            try:
                table, is_done = change.into.find(change.run)
                if is_done:
                    found[topic] = table
                elif number < ATTEMPTS:
                    left[topic] = _staged(change, table)
            except PipelineError as error:
                found[topic] = error
        if not left:
            break
        try:
            _post(catalog, left.values())
        except CommitFailedException:
            continue
        except CommitStateUnknownException:
            is_unknown = True
        except DestinationError as error:
            return found | dict.fromkeys(left, error)
    failure = not_committed("the tables of the run", is_unknown=is_unknown)
    return {topic: found.get(topic, failure) for topic in changes}


class _Staged(Exception):
    """Carries the commit that pyiceberg was about to send."""

    def __init__(self, request: CommitTableRequest) -> None:
        super().__init__()
        self.request = request


class _Staging:
    """Stands in for a table's catalog, and intercepts the commit."""

    def supports_server_side_planning(self) -> bool:
        """Returns False, because the table's files are found through its manifests, as in other catalogs."""
        return False

    def commit_table(
        self,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> None:
        *namespace, name = table.name()
        identifier = TableIdentifier(namespace=Namespace(namespace), name=name)
        raise _Staged(
            CommitTableRequest(identifier=identifier, requirements=requirements, updates=updates)
        )


def _staged(change: Change, table: Table) -> CommitTableRequest:
    """Writes the manifests of a snapshot, and returns the commit that adds it. Raises DestinationError."""
    table.catalog = _Staging()  # type: ignore[assignment]
    try:
        with iceberg_errors(f"the table {change.into.name}"):
            change.append(table)
    except _Staged as staged:
        return staged.request
    raise DestinationError(f"pyiceberg did not commit to the table {change.into.name}")


def _post(catalog: RestCatalog, requests_: Iterable[CommitTableRequest]) -> None:
    """Commits several tables in one step.

    Raises CommitFailedException if a table has changed, CommitStateUnknownException if there is no clear response,
    _CannotCommitTogether, and DestinationError.
    """
    body = f'{{"table-changes":[{",".join(each.model_dump_json() for each in requests_)}]}}'
    try:
        response = catalog._session.post(catalog.url(_PATH), data=body.encode())
    except requests.RequestException as error:
        raise CommitStateUnknownException(str(error)) from error
    if response.ok:
        return
    what = f"the catalog returned {response.status_code}: {response.text[:200]}"
    if response.status_code == HTTPStatus.CONFLICT:
        raise CommitFailedException(what)
    if response.status_code in _CANNOT:
        raise _CannotCommitTogether(what)
    if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise CommitStateUnknownException(what)
    raise DestinationError(what)


# The table of complete cuts.

#: One row for each table of a cut.
_SCHEMA: Final = pa.schema(
    [
        pa.field("cut", pa.string(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("tables", pa.int32(), nullable=False),
        pa.field("table_name", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
    ]
)
_PROPERTIES: Final = {
    "lacuna.cuts": "1",
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
_STATES: Final = "lacuna.states"
#: Once the table has this many files, they are rewritten as one.
_MOST_FILES: Final = 64


@dataclass(frozen=True, slots=True)
class CutsTable:
    """The table of complete cuts in a namespace. Also knows the names of the topics' tables."""

    catalog: Catalog
    settings: ExportSettings

    @classmethod
    def of(cls, settings: ExportSettings) -> Self:
        """Returns the table of cuts next to the tables of an export. Raises DestinationError, PipelineError."""
        return cls(catalog_of(settings), settings)

    @classmethod
    def with_newest(cls, settings: ExportSettings) -> tuple[Self, Mapping[str, int]]:
        """Returns the table, and each table's snapshot in its newest cut. Raises DestinationError, PipelineError."""
        cuts = cls.of(settings)
        found = cuts._read(newest=True)
        return cuts, found[-1].states if found else {}

    @property
    def name(self) -> str:
        return f"{self.settings.namespace}.{CUTS}"

    def note(self, cut: CompleteCut) -> None:
        """Adds a cut, unless the newest one has the same snapshots. Raises DestinationError."""
        states = {self.settings.table_of(topic)[1]: state for topic, state in cut.states.items()}
        digest = hashlib.sha256(json.dumps(states, sort_keys=True).encode()).hexdigest()

        def find() -> tuple[Table, bool]:
            table = self._open()
            is_same = in_summary(table.current_snapshot(), _STATES) == digest
            return table, is_same or snapshot_of(table, cut.id) is not None

        def attempt(table: Table) -> None:
            rows = pa.Table.from_pylist(
                [
                    {
                        "cut": cut.id,
                        "at": datetime.fromtimestamp(cut.at_ms / 1000, UTC),
                        "tables": len(states),
                        "table_name": name,
                        "snapshot_id": state,
                    }
                    for name, state in sorted(states.items())
                ],
                _SCHEMA,
            )
            _add(table, rows, {TOKEN: cut.id, _STATES: digest})

        until_committed(f"the table {self.name}", find, attempt)

    def complete(self) -> list[CompleteCut]:
        """Returns the complete cuts, oldest first, with their states by table name. Raises DestinationError."""
        return self._read(newest=False)

    def _read(self, *, newest: bool) -> list[CompleteCut]:
        with iceberg_errors(f"the table {self.name}"):
            try:
                table = self.catalog.load_table((self.settings.namespace, CUTS))
            except NoSuchTableError:
                return []
            token = in_summary(table.current_snapshot(), TOKEN) if newest else None
            scan = table.scan() if token is None else table.scan(row_filter=f"cut = '{token}'")
            rows = scan.to_arrow().to_pylist()
        states: dict[tuple[datetime, str], dict[str, int]] = {}
        for row in rows:
            states.setdefault((row["at"], row["cut"]), {})[row["table_name"]] = row["snapshot_id"]
        return [
            CompleteCut(id=cut, at_ms=round(at.timestamp() * 1000), states=found)
            for (at, cut), found in sorted(states.items())
        ]

    def readable(self, cut: CompleteCut) -> set[str]:
        """Returns the tables that still have the cut's snapshot. Raises DestinationError."""
        found = set()
        for name, state in cut.states.items():
            with suppress(NoSuchTableError):
                table = TopicTable(self.catalog, (self.settings.namespace, name)).load()
                if table.snapshot_by_id(state) is not None:
                    found.add(name)
        return found

    def _open(self) -> Table:
        identifier = (self.settings.namespace, CUTS)
        with iceberg_errors(f"the table {self.name}"):
            try:
                table = self.catalog.load_table(identifier)
            except NoSuchTableError:
                table = self.catalog.create_table_if_not_exists(
                    identifier, _SCHEMA, properties=_PROPERTIES
                )
        if "lacuna.cuts" not in table.properties:
            raise DestinationError(
                f"the table {self.name} is not a table of cuts: choose a different --namespace, or a different "
                f"table for the topic {CUTS} with --table"
            )
        return table


def _add(table: Table, rows: pa.Table, summary: Mapping[str, str]) -> None:
    """Adds rows. If the table has many files, overwrites it with its newest cuts and these rows."""
    with table.transaction() as transaction:
        if int(in_summary(table.current_snapshot(), "total-data-files") or 0) < _MOST_FILES:
            transaction.append(rows, snapshot_properties=dict(summary))
            return
        known = table.scan().to_arrow().sort_by([("at", "descending")])
        cuts = list(dict.fromkeys(known.column("cut").to_pylist()))[: MOST_CUTS - 1]
        kept = known.filter(pc.is_in(known.column("cut"), pa.array(cuts)))
        whole = pa.concat_tables([kept.select(_SCHEMA.names).cast(_SCHEMA), rows])
        transaction.overwrite(whole, snapshot_properties=dict(summary))
