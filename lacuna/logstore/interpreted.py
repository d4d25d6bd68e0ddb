"""Stand-ins for names of `cython`, for kernel modules that run as Python without Cython installed.

Compiled modules do not import these names, since the compiler provides them. In Python, the decorators change nothing,
and a cast returns its number, because the sources mask every number that has to wrap.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final, TypeVar

T = TypeVar("T")

compiled: Final = False
bint = int = longlong = ulonglong = Py_ssize_t = object()  # noqa: A001 - cython's names


def declare(_type: object, value: Any = None, **_options: object) -> Any:
    """Return the value."""
    return value


def cast(_type: object, value: T) -> T:
    """Return the value."""
    return value


def cfunc(decorated: T) -> T:
    """Return the function."""
    return decorated


ccall = cclass = final = inline = cfunc


def exceptval(*_arguments: object, **_options: object) -> Callable[[T], T]:
    """Return a decorator that changes nothing."""
    return cfunc


class _NoGil(nullcontext[None]):
    """A context manager and decorator without effect."""

    def __call__(self, decorated: T) -> T:
        return decorated


nogil: Final = _NoGil()
