"""Where the journal of several control planes is, in a form that another process can be told."""

import json
from dataclasses import asdict, dataclass
from typing import Self

from lacuna.controlplane.journal.journal import JournalReader
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.journal.snapshot_store import SnapshotStore


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A journal in the database `url` (postgresql://…), with its snapshots there."""

    url: str

    def text(self) -> str:
        """Return this place as text for `parse`."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place that `text` says, or None if it is a path."""
        return cls(**json.loads(text)) if text.startswith("{") else None

    def open_reader(self) -> tuple[JournalReader, SnapshotStore]:
        """Return a reader of the journal, and the store of its snapshots. Raises JournalError."""
        from lacuna.controlplane.journal.postgresql_reading import PostgresqlReader
        from lacuna.controlplane.journal.postgresql_snapshots import PostgresqlSnapshots

        snapshots = PostgresqlSnapshots(self.url)
        return PostgresqlReader(self.url, snapshots, LeaderWatch()), snapshots
