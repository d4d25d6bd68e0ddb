"""Exports to a directory, in which a single rename publishes a run."""

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from lacuna.logstore.objects.directory import DIRECTORY, folder_url
from lacuna.logstore.objects.filesystem import sync
from lacuna.pipeline.errors import DestinationError, ExportRunningError, NameTakenError
from lacuna.pipeline.export.destination import Move

_PUBLISHED = "published"


class FolderDestination:
    """A `Destination` in the folder `root`, which must have the same path on all executors."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def url(self) -> str:
        return folder_url(self.root)

    @property
    def catalog(self) -> dict[str, str]:
        return {"warehouse": f"{DIRECTORY.scheme}://{self.root}"}

    @property
    def own_catalog(self) -> str:
        return f"sqlite:///{self.root}/catalog.db"

    def check(self) -> None:
        with _errors(self.root):
            try:
                self.root.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise DestinationError(
                    f"{self.root} is not a folder, or one of its parents is a file: choose another destination with "
                    "--to"
                ) from None
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise DestinationError(
                f"{self.root} is not writable: change its permissions, or choose another folder"
            )

    def uri(self, name: str) -> str:
        return str(self.root / name)

    def put_new(self, name: str, data: bytes) -> None:
        path = self.root / name
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with _errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with draft.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.link(draft, path)
            except FileExistsError:
                raise NameTakenError(f"{path} already exists") from None
            finally:
                draft.unlink(missing_ok=True)
            sync(path.parent)

    def read(self, name: str) -> bytes | None:
        path = self.root / name
        with _errors(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

    def names(self, prefix: str) -> list[str]:
        found = (self.root / prefix).rglob("*")
        return sorted(
            str(path.relative_to(self.root))
            for path in found
            if path.is_file() and not path.name.startswith(".")
        )

    @contextmanager
    def create(self, name: str) -> Iterator[pa.NativeFile]:
        path = self.root / name
        with _errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with pa.OSFile(str(path), "wb") as file:
                yield file
            sync(path)

    def publish(self, moves: Sequence[Move], staging: str, folder: str) -> None:
        target, drafts = self.root / folder, self.root / staging / _PUBLISHED
        with _errors(target):
            if not target.exists():
                for move in moves:
                    self._gather(move, drafts / Path(move.final).relative_to(folder))
                for path in (drafts, *(path for path in drafts.rglob("*") if path.is_dir())):
                    sync(path)
                target.parent.mkdir(parents=True, exist_ok=True)
                drafts.rename(target)
                sync(target.parent)
                sync(self.root)
            for move in moves:
                _check_size(self.root / move.final, move.size)

    def _gather(self, move: Move, draft: Path) -> None:
        draft.parent.mkdir(parents=True, exist_ok=True)
        try:
            (self.root / move.staged).rename(draft)
        except FileNotFoundError:  # a run that was interrupted has already moved it
            _check_size(draft, move.size)

    def delete(self, names: Iterable[str]) -> None:
        with _errors(self.root):
            for name in names:
                (self.root / name).unlink(missing_ok=True)

    def delete_folder(self, prefix: str) -> None:
        # An abandoned attempt may still be writing there. The next run deletes its files.
        shutil.rmtree(self.root / prefix, ignore_errors=True)

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        path = self.root / name
        with _errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ExportRunningError(
                    f"another export of this topic to {self.root} is already running: wait for it to finish"
                ) from None
            yield
        finally:
            os.close(descriptor)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DestinationError(f"{path}: {error.strerror or error}") from error


def _check_size(path: Path, size: int) -> None:
    if not path.exists() or path.stat().st_size != size:
        raise DestinationError(
            f"{path} is no longer the exported file of {size} bytes, because another program is writing "
            "or deleting files there; this export has stopped: restore the file, or export to a different "
            "destination"
        )
