"""The memory behind what is fetched: how much of it lives, in the cache or only in answers.

A buffer that has left the cache lives on in the answers that still hold slices of it, until their
clients have taken them. Python says when it is gone.
"""

import weakref
from collections import deque


class ReadBuffer(bytearray):
    """Bytes that a read, a flush or a coalescing brought; they can be watched."""

    __slots__ = ("__weakref__",)


class LiveBytes:
    """Counts the bytes of the buffers that somebody still holds. Belongs to one event loop."""

    def __init__(self) -> None:
        self._total = 0
        # By id: a reference to bytes that may change has no hash.
        self._watched: dict[int, tuple[weakref.ref[ReadBuffer], int]] = {}
        # The last one to let go may be any thread.
        self._gone: deque[weakref.ref[ReadBuffer]] = deque()

    def watch(self, buffer: ReadBuffer, size: int) -> None:
        """Count `size` bytes from now on, until nobody holds the buffer."""
        self._total += size
        reference = weakref.ref(buffer, self._gone.append)
        self._watched[id(reference)] = reference, size

    @property
    def total(self) -> int:
        """Bytes now."""
        while self._gone:
            _, size = self._watched.pop(id(self._gone.popleft()))
            self._total -= size
        return self._total
