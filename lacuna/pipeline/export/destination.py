"""The interface of the places to which files are exported: a directory or a prefix in a bucket.

Names are `/`-separated and relative to the destination. Spark, Hive, Trino and pyarrow ignore names that begin with
`_`, so state is under `_lacuna/` and unfinished files are under `_staging/`.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import pyarrow as pa


class Move(NamedTuple):
    """The renaming of a finished file with `size` bytes from its hidden name to the name that readers see."""

    staged: str
    final: str
    size: int


class Destination(Protocol):
    """A place for exported files. All methods may raise DestinationError, which says what to do."""

    @property
    def url(self) -> str:
        """The complete URL, with which executors call `open_destination`."""
        ...

    @property
    def catalog(self) -> dict[str, str]:
        """pyiceberg's properties for a catalog whose warehouse is the destination."""
        ...

    @property
    def own_catalog(self) -> str | None:
        """The URI of a catalog in the destination itself, or None if there can be none."""
        ...

    def check(self) -> None:
        """Checks that the destination can be written to. Creates a missing folder."""
        ...

    def uri(self, name: str) -> str:
        """The full name: an absolute path, or the URL of an object."""
        ...

    def put_new(self, name: str, data: bytes) -> None:
        """Creates a small object atomically and durably. Raises NameTakenError if it already exists."""
        ...

    def read(self, name: str) -> bytes | None:
        """The bytes of a small object, or None if it does not exist."""
        ...

    def names(self, prefix: str) -> list[str]:
        """The names of all objects below the folder `prefix`, sorted."""
        ...

    def create(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """Opens a data file for writing. After the block, the file is complete and durable, unless the block fails."""
        ...

    def publish(self, moves: Sequence[Move], staging: str, folder: str) -> None:
        """Moves files from the folder `staging` to their names in `folder`, where readers see them.

        In a directory, all files appear at once. If a call is interrupted at any point, another call completes the
        move.
        """
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes the objects with these names. Missing objects are not an error."""
        ...

    def delete_folder(self, prefix: str) -> None:
        """Deletes everything below the folder `prefix`, which may be empty or missing."""
        ...

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Holds the lock `name` during the block. Raises ExportRunningError if another process holds the lock."""
        ...
