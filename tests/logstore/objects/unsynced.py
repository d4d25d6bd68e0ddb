"""An in-memory file system that forgets unsynced data when the power fails.

The page cache outlives a killed process, so kill -9 does not reveal a missing sync. This file system does:

    files = UnsyncedFileSystem()
    store = DirectoryStore("/data", file_system=files)
    store.put("a", [b"payload"])
    files.crash()
    DirectoryStore("/data", file_system=files).get_all("a")    # whole, or a sync is missing

`skip_sync(n)` makes the n-th sync do nothing, so that a test can show that it detects the loss.

`crash()` keeps what the strictest file system keeps: the bytes of a file at its last `fsync` (none if there was none),
and the names of a directory at its last `fsync_directory`. With `keep`, each unsynced change may survive, because a
page cache writes back in any order, and each sector of a large file survives separately. With `cut_power_after`, the
crash can occur between any two calls.

It is an in-memory `FileSystem`, with the additional calls for a database (`open_or_create`, `write_at`, `truncate`), so
that SQLite can run on it through a VFS.
"""

from __future__ import annotations

import errno
import itertools
import posixpath
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lacuna.logstore.objects.filesystem import FileInfo, FileSystem
from lacuna.logstore.objects.store import Part, Reads, WritableBuffer

SECTOR = 512
"""Bytes of a file that survive together or not at all."""


class PowerCutError(Exception):
    """The power is off, and every call fails until `crash()`. It is no OSError, because no code may handle it."""


@dataclass(eq=False, slots=True)
class _File:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    modified_ms: int = 0
    locked_by: int | None = None


@dataclass(eq=False, slots=True)
class _Directory:
    entries: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)
    locked_by: int | None = None


_Node: TypeAlias = _File | _Directory


class UnsyncedFileSystem(FileSystem):
    """See the module's docstring. For one thread at a time. `now_ms` sets the files' timestamps."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.syncs: list[str] = []
        """Every sync that was asked for: `fsync` or `fsync_directory`, and the path."""
        self.calls = 0
        """Changes and syncs that were asked for."""
        self._now_ms = now_ms
        self._root = _Directory()
        self._fds: dict[int, tuple[_File | _Directory, str]] = {}
        self._numbers = itertools.count(3)
        self._skipped: frozenset[int] = frozenset()
        self._last_call: int | None = None

    def skip_sync(self, *numbers: int) -> None:
        """Make the syncs with these indices in `syncs` do nothing but report success."""
        self._skipped = frozenset(numbers)

    def cut_power_after(self, calls: int) -> None:
        """Allow this many more changes and syncs, then raise `PowerCutError` until `crash`."""
        self._last_call = self.calls + calls

    def crash(self, keep: Callable[[], bool] | None = None) -> None:
        """Lose unsynced changes, except those for which `keep`, called once per change, returns true.

        Afterwards the machine is up again: everything is closed, unlocked and synced.
        """
        self._root = self.after_crash(keep)._root
        self._fds.clear()
        self._last_call = None

    def after_crash(self, keep: Callable[[], bool] | None = None) -> UnsyncedFileSystem:
        """Return the state after a crash at this moment as another file system, without affecting this one.

        For users that cannot be stopped midway, such as a database connection.
        """
        survivor = UnsyncedFileSystem(self._now_ms)
        survivor._root = _Survivors(keep or (lambda: False)).directory(self._root)
        return survivor

    def create(self, path: str) -> int:
        self._change()
        parent, name = self._parent(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        parent.entries[name] = _File(modified_ms=self._now_ms())
        return self.open(path)

    def open(self, path: str) -> int:
        node = self._find(path)
        fd = next(self._numbers)
        self._fds[fd] = (node, path)
        return fd

    def open_or_create(self, path: str) -> int:
        parent, name = self._parent(path)
        return self.open(path) if name in parent.entries else self.create(path)

    def is_at(self, fd: int, path: str) -> bool:
        try:
            return self._find(path) is self._fds[fd][0]
        except FileNotFoundError:
            return False

    def lock(self, fd: int) -> bool:
        node, _ = self._fds[fd]
        if node.locked_by is None:
            node.locked_by = fd
        return node.locked_by == fd

    def write(self, fd: int, parts: Sequence[Part]) -> None:
        file = self._file(fd)
        for part in parts:
            self.write_at(fd, [part], len(file.content))

    def write_at(self, fd: int, parts: Sequence[Part], position: int) -> None:
        """Write at any position. A gap before it reads as zeros."""
        self._change()
        file, data = self._file(fd), b"".join(parts)
        file.content.extend(bytes(max(0, position - len(file.content))))
        file.content[position : position + len(data)] = data
        file.modified_ms = self._now_ms()

    def truncate(self, fd: int, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._change()
        del self._file(fd).content[size:]

    def read_into(self, fd: int, buffer: memoryview, position: int) -> int:
        found = self._file(fd).content[position : position + len(buffer)]
        buffer[: len(found)] = found
        return len(found)

    def read_ranges(
        self, paths: list[str], firsts: array[int], reads: Reads, buffer: WritableBuffer
    ) -> Sequence[int]:
        view = memoryview(buffer)
        counts: list[int] = []
        for index, path in enumerate(paths):
            places = range(firsts[index], firsts[index + 1])
            try:
                fd = self.open(path)
                try:
                    for k in places:
                        out = view[reads.starts[k] : reads.starts[k] + reads.sizes[k]]
                        counts.append(self.read_into(fd, out, reads.positions[k]))
                finally:
                    self.close(fd)
            except OSError as error:
                counts += [-(error.errno or errno.EIO)] * (places.stop - len(counts))
        return counts

    def fsync(self, fd: int) -> None:
        file = self._file(fd)
        if self._sync("fsync", self._fds[fd][1]):
            file.durable = bytes(file.content)

    def close(self, fd: int) -> None:
        node, _ = self._fds.pop(fd)
        if node.locked_by == fd:
            node.locked_by = None

    def link(self, source: str, target: str) -> None:
        self._change()
        node = self._find(source)
        parent, name = self._parent(target)
        if name in parent.entries:
            raise _error(errno.EEXIST, target)
        parent.entries[name] = node

    def unlink(self, path: str) -> None:
        self._change()
        if isinstance(self._find(path), _Directory):
            raise _error(errno.EISDIR, path)
        parent, name = self._parent(path)
        del parent.entries[name]

    def make_directory(self, path: str) -> None:
        self._change()
        parent, name = self._parent(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        parent.entries[name] = _Directory()

    def fsync_directory(self, path: str) -> None:
        directory = self._directory(path)
        if self._sync("fsync_directory", path):
            directory.durable = dict(directory.entries)

    def info(self, path: str) -> FileInfo:
        return self._info(self._find(path))

    def info_of(self, fd: int) -> FileInfo:
        return self._info(self._fds[fd][0])

    def names(self, path: str) -> list[tuple[str, bool]]:
        entries = self._directory(path).entries
        return [(name, isinstance(node, _Directory)) for name, node in entries.items()]

    def _change(self) -> None:
        if self._last_call is not None and self.calls >= self._last_call:
            raise PowerCutError
        self.calls += 1

    def _sync(self, kind: str, path: str) -> bool:
        self._change()
        self.syncs.append(f"{kind} {path}")
        return len(self.syncs) - 1 not in self._skipped

    def _find(self, path: str) -> _Node:
        node: _Node = self._root
        for name in posixpath.normpath(path).strip("/").split("/"):
            if isinstance(node, _File):
                raise _error(errno.ENOTDIR, path)
            if name:
                if name not in node.entries:
                    raise _error(errno.ENOENT, path)
                node = node.entries[name]
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if isinstance(node, _File):
            raise _error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        above, name = posixpath.split(posixpath.normpath(path))
        return self._directory(above), name

    def _file(self, fd: int) -> _File:
        node, path = self._fds[fd]
        if isinstance(node, _Directory):
            raise _error(errno.EISDIR, path)
        return node

    def _info(self, node: _Node) -> FileInfo:
        if isinstance(node, _Directory):
            return FileInfo(0, 0, links=1, is_directory=True)
        links = sum(found is node for found in _nodes(self._root))
        return FileInfo(len(node.content), node.modified_ms, links, is_directory=False)


class _Survivors:
    """The tree after a crash. Everything in it is synced."""

    def __init__(self, keep: Callable[[], bool]) -> None:
        self._keep = keep
        self._files: dict[int, _File] = {}

    def directory(self, lost: _Directory) -> _Directory:
        entries: dict[str, _Node] = {}
        for name in dict.fromkeys([*lost.durable, *lost.entries]):
            before, after = lost.durable.get(name), lost.entries.get(name)
            node = after if before is not after and self._keep() else before
            if isinstance(node, _Directory):
                entries[name] = self.directory(node)
            elif node is not None:
                entries[name] = self._file(node)
        return _Directory(entries, dict(entries))

    def _file(self, lost: _File) -> _File:
        """Return one file, however many names it has."""
        file = self._files.get(id(lost))
        if file is None:
            content = self._content(lost)
            file = _File(bytearray(content), content, lost.modified_ms)
            self._files[id(lost)] = file
        return file

    def _content(self, lost: _File) -> bytes:
        if lost.content == lost.durable or not self._keep():
            return lost.durable
        content = bytes(lost.content)
        if self._keep():
            return content
        if len(content) > SECTOR:
            return self._torn(lost.durable, content)
        half = len(content) // 2  # the rest is unchanged: synced data is never lost
        return content[:half] + lost.durable[half:]

    def _torn(self, before: bytes, after: bytes) -> bytes:
        """Return the file with a subset of its changed sectors written."""
        torn = bytearray(before)
        for start in range(0, len(after), SECTOR):
            sector = after[start : start + SECTOR]
            if before[start : start + SECTOR] != sector and self._keep():
                torn.extend(bytes(max(0, start - len(torn))))
                torn[start : start + SECTOR] = sector
        return bytes(torn)


def _nodes(directory: _Directory) -> Iterator[_Node]:
    for node in directory.entries.values():
        yield node
        if isinstance(node, _Directory):
            yield from _nodes(node)


def _error(number: int, path: str) -> OSError:
    """Return the subclass of OSError that `os` raises for this errno."""
    return OSError(number, errno.errorcode[number], path)
