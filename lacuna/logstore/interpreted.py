"""What the kernel's modules take from `cython` where they run as Python and Cython is not installed.

Compiled they import nothing: these names are the compiler's. As Python the decorators change nothing, and a
cast keeps its number: the sources mask what has to wrap.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final, TypeVar

T = TypeVar("T")

compiled: Final = False
bint = int = longlong = ulonglong = Py_ssize_t = object()  # noqa: A001 - cython's names


def declare(_type: object, value: Any = None, **_options: object) -> Any:
    """The value."""
    return value


def cast(_type: object, value: T) -> T:
    """The value."""
    return value


def cfunc(decorated: T) -> T:
    """The same."""
    return decorated


ccall = cclass = final = cfunc


def exceptval(*_arguments: object, **_options: object) -> Callable[[T], T]:
    """A decorator that changes nothing."""
    return cfunc


class _NoGil(nullcontext[None]):
    """A block, or a decorator."""

    def __call__(self, decorated: T) -> T:
        return decorated


nogil: Final = _NoGil()
