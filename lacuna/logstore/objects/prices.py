"""The prices of an object store's requests and storage, as set by the kind of store or overridden by a file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from lacuna.base.errors import UserError

PUT: Final = "PUT"
GET: Final = "GET"
LIST: Final = "LIST"
DELETE: Final = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices in dollars per thousand requests and per GiB-month; `source` says where they come from."""

    source: str
    put_per_1000: float = 0.0
    get_per_1000: float = 0.0
    list_per_1000: float = 0.0
    delete_per_1000: float = 0.0
    gib_month: float = 0.0

    @classmethod
    def load(cls, path: Path, usual: "Prices | None") -> "Prices":
        """Return `usual`, or Amazon's prices if it is None, updated with the prices in the JSON file at `path`.

        Raises UserError if the file cannot be read, or has invalid names or values.
        """
        try:
            given = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise UserError(f"the prices in {path} cannot be read: {error}") from error
        names = [field.name for field in fields(cls)]
        if not isinstance(given, dict) or not _is_table(given, names):
            raise UserError(
                f"{path} is not a valid price file: it must be a JSON object with any of "
                f"{', '.join(names[1:])} as non-negative numbers, and optionally source as a string"
            )
        return replace(usual or AMAZON_S3, **{"source": str(path), **given})

    def of(self, counts: Mapping[str, int]) -> float:
        """Return the cost in dollars of requests, counted by kind (PUT, GET, LIST, DELETE)."""
        by_kind = {
            PUT: self.put_per_1000,
            GET: self.get_per_1000,
            LIST: self.list_per_1000,
            DELETE: self.delete_per_1000,
        }
        return sum(count * by_kind.get(kind, 0.0) for kind, count in counts.items()) / 1000

    def of_a_month(self, size: int) -> float:
        return size / (1 << 30) * self.gib_month


AMAZON_S3: Final = Prices(
    source="Amazon S3 Standard, us-east-1, 2025; dollars",
    put_per_1000=0.005,
    get_per_1000=0.0004,
    list_per_1000=0.005,
    gib_month=0.023,
)


def _is_table(given: Mapping[str, object], names: list[str]) -> bool:
    return all(
        name in names
        and (
            isinstance(value, str)
            if name == "source"
            else isinstance(value, int | float) and value >= 0
        )
        for name, value in given.items()
    )
