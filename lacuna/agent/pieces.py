"""Cuts a request with long arrays into requests with few elements, and joins the answers.

The event loop handles a request in one or a few steps, and the control plane handles a command in the same way. So that
a request with a million elements does not keep other clients waiting, its API declares which array may be cut
(`Api.pieces`). The pieces are handled one after another, and other requests are served in between. Each answer is
encoded as soon as it is complete, since decoded answers would take up many times as much memory.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from lacuna.agent.api import Api, MalformedRequest, Pieces
from lacuna.agent.limits import MOST_WHOLE
from lacuna.wire.kernel import Encoded

#: The size in bytes above which a body is read in a thread, if its API accepts more than MOST_WHOLE elements.
LARGE_BYTES: Final = 64 << 10
#: The maximum size of a joined answer in bytes. A larger answer closes the connection.
MOST_ANSWER_BYTES: Final = 100 << 20

# The thread starts with the first large request. All agents of the process share it.
_executor: Final = ThreadPoolExecutor(1, "large-requests")


class Piece(NamedTuple):
    """A part of a request. In `depth` nested arrays, its first element continues the last one of the previous piece."""

    request: Any
    depth: int


async def read(api: Api[Any, Any], body: memoryview, version: int) -> Any:
    """Read a large request in a thread, so that the event loop keeps running. Raises MalformedRequest."""
    return await asyncio.get_running_loop().run_in_executor(_executor, api.read, body, version)


def pieces_of(api: Api[Any, Any], request: Any, count: int) -> Pieces | None:
    """Return how a request with at most `count` elements is cut, or None if it is handled whole.

    Raises MalformedRequest if it can be neither cut nor handled whole.
    """
    for each in api.pieces:
        if getattr(request, each.asked[0]):
            return each if count > each.most else None
    if api.pieces and count > api.most_whole:
        _check(count_of(request, api.most_whole + 1) - 1, api.most_whole)
    return None


def _check(count: int, most: int) -> None:
    if count > most:
        raise MalformedRequest(
            f"the request has more than {most} elements that cannot be handled separately; send "
            "at most that many"
        )


def cut(request: Any, pieces: Pieces) -> Iterator[Piece]:
    """Yield the pieces of a request as they are needed. Raises MalformedRequest if no cut makes them small enough."""
    name, *inner = pieces.asked
    for elements, depth in _cut(getattr(request, name), inner, pieces.most):
        yield Piece(request._replace(**{name: elements}), depth)


def _cut(
    elements: Sequence[Any], inner: Sequence[str], most: int
) -> Iterator[tuple[Sequence[Any], int]]:
    """Yield runs of at most `most` elements, including nested elements, with their depths (see Piece)."""
    run: list[Any] = []
    left = most
    for element in elements:
        count = count_of(element, most if inner else MOST_WHOLE)
        if count > left and run:
            yield run, 0
            run, left = [], most
        if count > most and inner:
            yield from _cut_one(element, inner, most)
            continue
        _check(count, MOST_WHOLE)
        run.append(element)
        left -= count
    if run:
        yield run, 0


def _cut_one(element: Any, inner: Sequence[str], most: int) -> Iterator[tuple[Sequence[Any], int]]:
    name, *rest = inner
    is_first = True
    for part, depth in _cut(getattr(element, name) or (), rest, most):
        yield (element._replace(**{name: part}),), 0 if is_first else depth + 1
        is_first = False


def count_of(value: Any, most: int = sys.maxsize) -> int:
    """Count the elements in the arrays of a value, and the value itself unless it is an array.

    Counting may stop once there are more than `most` elements.
    """
    if type(value) is not tuple:
        arrays = [field for field in value if isinstance(field, tuple)] if _is_row(value) else ()
        return 1 + sum(count_of(field, most) for field in arrays)
    if not value or not _is_row(value[0]):
        return len(value)
    count = 0
    for element in value:
        count += count_of(element, most)
        if count > most:
            break
    return count


def _is_row(value: Any) -> bool:
    return isinstance(value, tuple)


class Joined:
    """The answers to the pieces of one request, joined into one answer.

    In each nested array, all elements except the last are already encoded, since only the last may still grow.
    """

    def __init__(
        self,
        api: Api[Any, Any],
        version: int,
        answered: tuple[str, ...],
        on_errors: Callable[[Sequence[int]], None],
    ) -> None:
        """`on_errors` is called with the error codes in the bytes that have been encoded."""
        self._codec = api.response.codec
        self._version = version
        self._names = answered
        self._on_errors = on_errors
        self._written: list[Encoded | None] = [None] * len(answered)
        self._last: list[Any] = [None] * len(answered)
        self._response: Any = None

    def add(self, response: Any, depth: int) -> bool:
        """Add the answer to the next piece. Return False if it is a single error that applies to all pieces.

        Raises MalformedRequest if the joined answer becomes too large.
        """
        elements = getattr(response, self._names[0])
        is_over = not elements and getattr(response, "error_code", 0) != 0
        if is_over:
            self._written[0], self._last[0] = None, None
        self._add(0, elements, depth)
        self._response = response
        size = sum(each.size for each in self._written if each is not None)
        if size > MOST_ANSWER_BYTES:
            raise MalformedRequest(
                f"the answer exceeds {MOST_ANSWER_BYTES >> 20} MiB; request fewer elements "
                "at a time"
            )
        return not is_over

    def response(self) -> Any:
        self._end(0)
        return self._response._replace(**{self._names[0]: self._written[0] or ()})

    def _add(self, level: int, elements: Sequence[Any], depth: int) -> None:
        if level + 1 == len(self._names):
            self._write(level, elements)
            return
        if depth and elements and self._goes_on(level, elements[0]):
            self._last[level] = elements[0]
            self._add(level + 1, self._inner(level, elements[0]), depth - 1)
            elements = elements[1:]
        if elements:
            self._end(level)
            self._write(level, elements[:-1])
            self._last[level] = elements[-1]
            self._add(level + 1, self._inner(level, elements[-1]), 0)

    def _end(self, level: int) -> None:
        last = self._last[level]
        if last is None:
            return
        self._end(level + 1)
        inner = self._written[level + 1] or ()
        self._write(level, (last._replace(**{self._names[level + 1]: inner}),))
        self._last[level] = self._written[level + 1] = None

    def _write(self, level: int, elements: Sequence[Any]) -> None:
        path = self._names[: level + 1]
        before = self._written[level]
        self._written[level] = self._codec.add_elements(before, elements, self._version, path)
        if self._codec.errors is not None:
            self._on_errors(self._codec.errors)

    def _inner(self, level: int, element: Any) -> Sequence[Any]:
        inner: Sequence[Any] = getattr(element, self._names[level + 1])
        return inner

    def _goes_on(self, level: int, element: Any) -> bool:
        """Whether an element continues the last one. A guard may have changed the order of the elements."""
        last, nothing = self._last[level], {self._names[level + 1]: ()}
        return last is not None and last._replace(**nothing) == element._replace(**nothing)
