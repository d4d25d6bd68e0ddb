"""Checks whether a journal still contains every acknowledged record, based on the files next to it (docs/adr/0020).

This happens before anything is written, because SQLite would overwrite unreadable data that could still be repaired.
"""

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from lacuna.controlplane.journal.connections import Connection, connect_read_only, errors_of
from lacuna.controlplane.journal.journal import REMEDY, JournalLoss
from lacuna.controlplane.journal.tables import last_position, read_meta
from lacuna.controlplane.journal.wal import WalDamage, find_damage
from lacuna.controlplane.journal.witness import read_witness, witness_path


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a journal's files show about its end.

    The journal at `path` ends at `position`, and at least everything up to `witnessed` was acknowledged. `damage` is an
    invalid frame in the write-ahead log.
    """

    path: str
    position: int
    witnessed: int
    damage: WalDamage | None

    @property
    def is_loss(self) -> bool:
        """Whether acknowledged records are missing."""
        return self.damage is not None or self.witnessed > self.position

    def check(self) -> None:
        """Raise JournalLoss if acknowledged records are missing."""
        said = self.describe()
        if said:
            raise JournalLoss(f"{said}. {REMEDY}")

    def describe(self) -> str:
        """Return a description of the missing records without a final full stop, or "" if there are none."""
        said = []
        if self.damage is not None:
            said.append(
                f"{self.path}-wal has {self.damage.size} damaged bytes at byte "
                f"{self.damage.position}: the acknowledged commits that follow cannot be read"
            )
        if self.witnessed > self.position:
            said.append(
                f"{self.path} ends at position {self.position}, but everything up to position {self.witnessed} was "
                f"acknowledged: positions {self.position + 1} to {self.witnessed} are missing. It was damaged or cut "
                "short, or replaced by an older copy"
            )
        return ". ".join(said)


def gather(path: str) -> Evidence:
    """Examine the files of the journal at `path` without changing them. Raises JournalError if one cannot be read."""
    with errors_of(path):
        return _gather(path)


def _gather(path: str) -> Evidence:
    damage = find_damage(_read(path + "-wal"))
    if not _size(path):
        return Evidence(path, 0, read_witness(witness_path(path), None), damage)
    with closing(connect_read_only(path)) as connection:
        cluster_id, position = _read_end(connection)
    return Evidence(path, position, read_witness(witness_path(path), cluster_id), damage)


def _read_end(connection: Connection) -> tuple[str | None, int]:
    stored = read_meta(connection)
    if stored is None:
        return None, 0
    return str(stored["cluster_id"]), last_position(connection)


def _size(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def _read(path: str) -> bytes:
    return Path(path).read_bytes() if os.path.exists(path) else b""
