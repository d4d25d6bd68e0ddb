"""Checks whether the kernel's modules are compiled. Without a C compiler, the same sources run as Python, much more
slowly.
"""

from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

from lacuna.logstore.records.build_kernel import SERVING


@cache
def interpreted(modules: tuple[str, ...] = SERVING) -> Sequence[str]:
    """Return the modules that are not compiled. Without an argument, only the modules that servers use are checked."""
    return [each for each in modules if not _is_compiled(each)]


def _is_compiled(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
