"""Exports to a prefix in a bucket.

State is written through Lacuna's own object store (create-if-absent), and data files through pyarrow. Objects cannot be
renamed, so a run is published by copying its files one by one within the service.
"""

import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from lacuna.logstore.objects import (
    ObjectExistsError,
    ObjectNotFoundError,
    ObjectStore,
    kind_of,
    open_store,
)
from lacuna.pipeline.errors import DestinationError, ExportRunningError, NameTakenError
from lacuna.pipeline.export.destination import Move

_COPIES_AT_ONCE: Final = 16
#: An export that has not renewed its lock for this many intervals is considered dead.
_PATIENCE_BEATS: Final = 4


class BucketDestination:
    #: Seconds between renewals of a running export's lock. An export that finds one watches it for four times as long.
    beat_seconds = 5.0

    def __init__(self, url: str) -> None:
        kind = kind_of(url)
        assert kind.others is not None
        parts = urlsplit(url)
        self._url = url
        self._scheme = kind.scheme
        self._others = kind.others
        self._store: ObjectStore = open_store(url)
        self._root = "/".join(filter(None, (parts.netloc, parts.path.strip("/"))))
        self._options = dict(parse_qsl(parts.query))
        self._files: pafs.FileSystem | None = None

    @property
    def url(self) -> str:
        return self._url

    @property
    def files(self) -> pafs.FileSystem:
        """pyarrow's view of the service, created on first use, so that it does not exist before a worker is forked."""
        if self._files is None:
            self._files = self._others.arrow(self._options)
        return self._files

    @property
    def catalog(self) -> dict[str, str]:
        names = self._others.catalog
        options = {names[name]: value for name, value in self._options.items() if name in names}
        return {"warehouse": f"{self._scheme}://{self._root}", **options}

    @property
    def own_catalog(self) -> None:
        return None

    def check(self) -> None:
        self._store.check()

    def uri(self, name: str) -> str:
        return f"{self._scheme}://{self._root}/{name}"

    def put_new(self, name: str, data: bytes) -> None:
        try:
            self._store.put(name, [data])
        except ObjectExistsError:
            raise NameTakenError(f"{self.uri(name)} already exists") from None

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._store.get_all(name))
        except ObjectNotFoundError:
            return None

    def names(self, prefix: str) -> list[str]:
        return [found.key for found in self._store.list(f"{prefix}/")]

    @contextmanager
    def create(self, name: str) -> Iterator[pa.NativeFile]:
        with self._errors(name), self.files.open_output_stream(f"{self._root}/{name}") as file:
            yield file

    def publish(self, moves: Sequence[Move], staging: str, folder: str) -> None:  # noqa: ARG002
        with ThreadPoolExecutor(_COPIES_AT_ONCE, thread_name_prefix="publish") as executor:
            for _ in executor.map(self._copy, moves):
                pass

    def _copy(self, move: Move) -> None:
        if self._size(move.final) == move.size:
            return
        with self._errors(move.staged):
            self.files.copy_file(f"{self._root}/{move.staged}", f"{self._root}/{move.final}")

    def _size(self, name: str) -> int | None:
        try:
            return self._store.size(name)
        except ObjectNotFoundError:
            return None

    def delete(self, names: Iterable[str]) -> None:
        self._store.delete(names)

    def delete_folder(self, prefix: str) -> None:
        self._store.delete([found.key for found in self._store.list(f"{prefix}/")])

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Holds a lock during the block, taking it over from an export that has stopped renewing it.

        If that export is still running, the log of runs rejects it; the lock merely prevents duplicate work. Raises
        ExportRunningError if another export holds the lock.
        """
        self._wait_for_death(name)
        owner = uuid.uuid4().hex
        ended = threading.Event()
        beating = threading.Thread(
            target=self._beat, args=(name, owner, ended), name="export-lock", daemon=True
        )
        self._show(name, f"{owner} 0")
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()
            self._store.delete([name])

    def _wait_for_death(self, name: str) -> None:
        first = self.read(name)
        if first is None:
            return
        waiting = threading.Event()
        for _ in range(_PATIENCE_BEATS):
            waiting.wait(self.beat_seconds)
            now = self.read(name)
            if now is None:
                return
            if now != first:
                raise ExportRunningError(
                    f"another export of this topic to {self.uri('')} is already running: wait for it to finish"
                )

    def _beat(self, name: str, owner: str, ended: threading.Event) -> None:
        count = 0
        while not ended.wait(self.beat_seconds):
            count += 1
            with suppress(DestinationError):  # the next renewal may still come in time
                self._show(name, f"{owner} {count}")

    def _show(self, name: str, text: str) -> None:
        with self.create(name) as file:
            file.write(text.encode())

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise DestinationError(f"{self.uri(name)}: {error}") from error
