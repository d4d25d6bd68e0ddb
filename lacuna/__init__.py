"""Lacuna: a Kafka-compatible log with transactions whose records live in an object store.

`lacuna.read` and `lacuna.follow` read topics as Arrow (docs/arrow.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lacuna.pipeline.following import follow as follow
    from lacuna.pipeline.reading import read as read

__all__ = ["follow", "read"]
_MODULES = {"follow": "lacuna.pipeline.following", "read": "lacuna.pipeline.reading"}


def __getattr__(name: str) -> Any:
    """Imports the functions that read topics on first use, since the rest of Lacuna works without pyarrow."""
    if name not in _MODULES:
        raise AttributeError(f"module 'lacuna' has no attribute {name!r}")
    try:
        module = import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ModuleNotFoundError(
            f"lacuna.{name} needs pyarrow: pip install 'lacuna-log[arrow]'", name="pyarrow"
        ) from None
    return getattr(module, name)
