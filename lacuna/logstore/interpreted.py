"""Stand-ins for the names in `cython`, so that kernel modules run as Python without Cython installed.

Compiled modules do not use them, since the compiler provides the real ones. Here, decorators change nothing, and a cast
returns its argument, because the sources mask every number that has to wrap.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Final, TypeVar

T = TypeVar("T")

compiled: Final = False
bint = int = longlong = ulonglong = Py_ssize_t = object()  # noqa: A001 - cython's names


def declare(_type: object, value: Any = None, **_options: object) -> Any:
    return value


def cast(_type: object, value: T) -> T:
    return value


def cfunc(decorated: T) -> T:
    return decorated


ccall = cclass = final = inline = cfunc


def exceptval(*_arguments: object, **_options: object) -> Callable[[T], T]:
    return cfunc


class _NoGil(nullcontext[None]):
    def __call__(self, decorated: T) -> T:
        return decorated


nogil: Final = _NoGil()
