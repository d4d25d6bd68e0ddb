"""Arrays that must not be null: kio reads a length of -1 as None whether it may be or not."""

import dataclasses
from functools import lru_cache
from types import UnionType
from typing import Any, get_args, get_type_hints


class UnexpectedNullError(Exception):
    """A request has a null where its schema allows none."""


def reject_nulls(value: Any) -> None:
    """Raises UnexpectedNullError for an array that is null and must not be, at any depth."""
    cls: Any = type(value)
    for name, may_be_null in _arrays(cls):
        entries = getattr(value, name)
        if entries is None:
            if not may_be_null:
                raise UnexpectedNullError(f"{cls.__name__}: {name} is null")
            continue
        for entry in entries:
            if dataclasses.is_dataclass(entry):
                reject_nulls(entry)


@lru_cache(maxsize=1024)
def _arrays(cls: Any) -> tuple[tuple[str, bool], ...]:
    """The array fields of an entity, and whether each may be null."""
    found: list[tuple[str, bool]] = []
    for name, hint in get_type_hints(cls).items():
        options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if any(getattr(option, "__origin__", None) is tuple for option in options):
            found.append((name, type(None) in options))
    return tuple(found)
