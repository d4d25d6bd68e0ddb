"""Opens the journal of several control planes that an operator names."""

import os
from dataclasses import dataclass

from lacuna.controlplane.journal.journal import SharedJournal
from lacuna.controlplane.journal.leader_watch import LeaderWatch
from lacuna.controlplane.service import new_cluster_id
from lacuna.errors import UserError


@dataclass(frozen=True, slots=True)
class SharedJournalOptions:
    """A journal's URL, and the seconds of a leader's lease. Raises UserError."""

    url: str
    lease: float

    def __post_init__(self) -> None:
        if not self.url.startswith(("postgresql://", "postgres://")):
            raise UserError(
                f"{self.url!r} is not a journal that several control planes can share: give postgresql://USER@HOST/"
                "DATABASE, or leave --journal out for an SQLite file in the data folder"
            )

    def make(self, address: str) -> SharedJournal:
        """Returns the journal, not open, for the control plane that agents reach at `address`."""
        try:
            from lacuna.controlplane.journal.postgresql import PostgresqlJournal
        except ModuleNotFoundError as error:
            raise UserError(
                "a journal in PostgreSQL needs the extra `postgresql`: pip install 'lacuna-log[postgresql]'"
            ) from error
        return PostgresqlJournal(
            self.url,
            lambda: new_cluster_id(lambda: os.urandom(16)),
            address=address,
            lease=self.lease,
            # A leader that waits longer than a lease for an append has lost its leadership by then.
            answer_timeout=self.lease,
            watch=LeaderWatch(),
        )
