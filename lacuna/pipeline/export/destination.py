"""The interface of export destinations: a directory, or a prefix in a bucket.

Names are relative to the destination and separated by `/`. Spark, Hive, Trino and pyarrow ignore names that begin with
`_`, so state is kept under `_lacuna/` and unfinished files under `_staging/`.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import pyarrow as pa


class Move(NamedTuple):
    """The renaming of a finished file of `size` bytes from its hidden name to the name that readers see."""

    staged: str
    final: str
    size: int


class Destination(Protocol):
    """A destination for exported files. All methods may raise DestinationError, which says what to do."""

    @property
    def url(self) -> str:
        """The complete URL, which executors pass to `open_destination`."""
        ...

    @property
    def catalog(self) -> dict[str, str]:
        """The pyiceberg properties of a catalog whose warehouse is the destination."""
        ...

    @property
    def own_catalog(self) -> str | None:
        """The URI of a catalog within the destination, or None if it cannot contain one."""
        ...

    def check(self) -> None:
        """Checks that the destination is writable. Creates a missing folder."""
        ...

    def uri(self, name: str) -> str:
        """Returns the full name: an absolute path, or an object's URL."""
        ...

    def put_new(self, name: str, data: bytes) -> None:
        """Creates a small object atomically and durably. Raises NameTakenError if it already exists."""
        ...

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a small object, or None if it does not exist."""
        ...

    def names(self, prefix: str) -> list[str]:
        """Returns the sorted names of all objects below the folder `prefix`."""
        ...

    def create(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """Opens a data file for writing. When the block ends without an error, the file is complete and durable."""
        ...

    def publish(self, moves: Sequence[Move], staging: str, folder: str) -> None:
        """Moves files from the folder `staging` to their final names in `folder`, where readers see them.

        In a directory, all files appear at once. An interrupted call can be completed by repeating it.
        """
        ...

    def delete(self, names: Iterable[str]) -> None:
        """Deletes the objects with these names, ignoring missing ones."""
        ...

    def delete_folder(self, prefix: str) -> None:
        """Deletes everything below the folder `prefix`, which may be empty or missing."""
        ...

    def lock(self, name: str) -> AbstractContextManager[None]:
        """Holds the lock `name` during the block. Raises ExportRunningError if another process holds it."""
        ...
