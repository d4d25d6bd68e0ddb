"""Bounds how deeply an Avro value nests, before fastavro reads it."""

from collections.abc import Mapping
from typing import Any, Final

from lacuna.pipeline.export.typed.schema import NotOfSchemaError

#: The most nested types. fastavro's compiled reader has no bound, and would overflow the stack.
MOST_LEVELS: Final = 500
_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = ("int", "long", "enum")


def check_depth(data: bytes, schema: Any, names: Mapping[str, Any]) -> None:
    """Raises NotOfSchemaError if a value nests too deeply, ValueError or IndexError if it has no end within `data`.

    `names` has the named types of the parsed schema.
    """
    _Walk(data, names).value(schema, MOST_LEVELS)


class _Walk:
    def __init__(self, data: bytes, names: Mapping[str, Any]) -> None:
        self._data = data
        self._names = names
        self._at = 0

    def value(self, schema: Any, levels: int) -> None:
        """Skips a value of this type, which may have this many levels."""
        if not levels:
            raise NotOfSchemaError("it nests too deeply")
        if isinstance(schema, list):
            self.value(schema[self._long()], levels - 1)
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind in ("record", "error"):
            for field in schema["fields"]:
                self.value(field["type"], levels - 1)
        elif kind == "array":
            self._items(schema["items"], levels - 1)
        elif kind == "map":
            self._items(schema["values"], levels - 1, has_keys=True)
        elif not isinstance(kind, str) or kind in self._names:  # a type within "type", or a name
            self.value(self._names[kind] if isinstance(kind, str) else kind, levels - 1)
        else:
            self._leaf(kind, schema)

    def _leaf(self, kind: str, schema: Any) -> None:
        if kind in _VARINTS:
            self._long()
        elif kind in ("bytes", "string"):
            self._skip()
        else:
            self._at += schema["size"] if kind == "fixed" else _SIZES[kind]

    def _items(self, schema: Any, levels: int, *, has_keys: bool = False) -> None:
        while count := self._long():
            if count < 0:
                self._long()  # the size of the block
            for _ in range(abs(count)):
                if has_keys:
                    self._skip()
                self.value(schema, levels)

    def _skip(self) -> None:
        length = self._long()
        if length < 0:
            raise ValueError(f"a length of {length}")
        self._at += length

    def _long(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number >> 1 ^ -(number & 1)
        raise ValueError("a number of more than ten bytes")
