"""Where the journal of several control planes is, in a form that another process can be told."""

import json
from dataclasses import asdict, dataclass
from typing import Final, Self

#: The URL of a journal that is in the bucket alone.
BUCKET: Final = "bucket"
#: The kind of the other journals.
POSTGRESQL: Final = "postgresql"


@dataclass(frozen=True, slots=True)
class SharedPlace:
    """A journal in the database `url` (postgresql://…), or in the bucket `store_url` if `url` is `BUCKET`.

    Its snapshots are in the bucket `store_url`, or in the database if that is a folder or none.
    """

    url: str
    store_url: str = ""

    def text(self) -> str:
        """Return this place as text for `parse`."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place that `text` says, or None if it is the path of an SQLite journal."""
        return cls(**json.loads(text)) if text.startswith("{") else None
