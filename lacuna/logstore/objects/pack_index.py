"""The index of packed objects in memory, about 200 bytes for each object.

It holds no Python objects that the garbage collector has to visit, since there may be hundreds of thousands of entries.
A place is 24 packed bytes, under a directory and a name.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from lacuna.logstore.objects.pack_format import BLOCK, Packed

_PLACE = struct.Struct("<IQIQ")
_NO_NAMES: dict[str, bytes] = {}


class Place(NamedTuple):
    """An object of `size` bytes, from `position` of the pack at `path` on."""

    path: str
    position: int
    size: int
    modified_ms: int


@dataclass(eq=False, slots=True)
class Pack:
    """The known state of a pack. `objects` and `live_bytes` count objects that were not deleted.

    Its records were read up to `end`, and the file of its deletions up to `deletions_end`. `names` has all objects that
    were ever in it, by directory.
    """

    name: str
    path: str
    number: int
    pack_id: int | None = None
    is_sealed: bool = False
    size: int = 0
    end: int = BLOCK
    deletions_end: int = 0
    objects: int = 0
    live_bytes: int = 0
    newest_ms: int = 0
    names: dict[str, list[str]] = field(default_factory=dict)


class PackIndex:
    """The objects of all packs of a folder. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, dict[str, bytes]] = {}
        self._packs: dict[int, Pack] = {}
        self._next_number = 0

    def new_pack(self, name: str, path: str) -> Pack:
        """Add a pack with unknown content."""
        with self._lock:
            pack = Pack(name, path, self._next_number)
            self._packs[pack.number] = pack
            self._next_number += 1
            return pack

    def drop(self, pack: Pack) -> None:
        """Remove a pack that is gone, and all entries that still point to it."""
        with self._lock:
            del self._packs[pack.number]
            for directory, names in pack.names.items():
                places = self._places.get(directory, {})
                for name in names:
                    place = places.get(name)
                    if place is not None and _PLACE.unpack(place)[0] == pack.number:
                        del places[name]
                if not places:
                    self._places.pop(directory, None)

    def add(self, pack: Pack, objects: Iterable[Packed]) -> None:
        """Add objects that were found in a pack, or put there. Of two with one key, the newer one is used.

        There are two if a power cut lost a deletion after another process had put the key again.
        """
        with self._lock:
            for key, position, size, modified_ms in objects:
                directory, _, name = key.rpartition("/")
                places = self._places.setdefault(directory, {})
                if (other := places.get(name)) is not None:
                    number, _, other_size, other_ms = _PLACE.unpack(other)
                    if other_ms > modified_ms:
                        continue
                    self._packs[number].objects -= 1
                    self._packs[number].live_bytes -= other_size
                places[name] = _PLACE.pack(pack.number, position, size, modified_ms)
                pack.names.setdefault(directory, []).append(name)
                pack.objects += 1
                pack.live_bytes += size
                pack.newest_ms = max(pack.newest_ms, modified_ms)

    def remove(self, pack: Pack, key: str, position: int) -> None:
        """Remove an object, if it is at this position of this pack."""
        directory, _, name = key.rpartition("/")
        with self._lock:
            places = self._places.get(directory, {})
            place = places.get(name)
            if place is None:
                return
            number, at, size, _ = _PLACE.unpack(place)
            if (number, at) == (pack.number, position):
                del places[name]
                if not places:
                    del self._places[directory]
                pack.objects -= 1
                pack.live_bytes -= size

    def find(self, key: str) -> Place | None:
        """Return the place of an object, if it is known to be in a pack."""
        found = self.locate(key)
        return None if found is None else found[1]

    def find_each(self, keys: Iterable[str]) -> list[Place | None]:
        """Return the places of many keys, as `find` does."""
        found: list[Place | None] = []
        all_names, packs, unpack = self._places, self._packs, _PLACE.unpack
        for key in keys:
            directory, _, name = key.rpartition("/")
            place = all_names.get(directory, _NO_NAMES).get(name)
            if place is None:
                found.append(None)
                continue
            number, position, size, modified_ms = unpack(place)
            pack = packs.get(number)
            found.append(None if pack is None else Place(pack.path, position, size, modified_ms))
        return found

    def locate(self, key: str) -> tuple[Pack, Place] | None:
        """Return the place of an object, as `find` does, with its pack."""
        directory, _, name = key.rpartition("/")
        names = self._places.get(directory)
        place = None if names is None else names.get(name)
        if place is None:
            return None
        number, position, size, modified_ms = _PLACE.unpack(place)
        pack = self._packs.get(number)
        return None if pack is None else (pack, Place(pack.path, position, size, modified_ms))

    def objects(self, pack: Pack) -> list[Packed]:
        """Return the remaining objects of a pack, in the order of their positions."""
        found = {}
        with self._lock:
            for directory, names in pack.names.items():
                places = self._places.get(directory, {})
                above = f"{directory}/" if directory else ""
                for name in names:
                    if (place := places.get(name)) is not None:
                        number, position, size, modified_ms = _PLACE.unpack(place)
                        if number == pack.number:
                            found[position] = Packed(above + name, position, size, modified_ms)
        return [found[position] for position in sorted(found)]

    def names(self, above: str) -> set[tuple[str, bool]]:
        """Return the names in a directory, as a file system would: each with whether it is a directory.

        `above` is "" or ends with a slash.
        """
        with self._lock:
            found = {(name, False) for name in self._places.get(above[:-1], ())}
            for directory in self._places:
                if directory.startswith(above) and directory:
                    found.add((directory[len(above) :].partition("/")[0], True))
            return found
