"""The location of a journal, in a form that can be passed to another process."""

import json
from dataclasses import asdict, dataclass
from typing import Final, Self

#: What a snapshot in a bucket records about its journal: whether the journal is in the bucket too, or in a database.
BUCKET: Final = "bucket"
POSTGRESQL: Final = "postgresql"


@dataclass(frozen=True, slots=True)
class Place:
    """The address `url` of a journal, and the URL of the cluster's store, or "" if none is given.

    If the store is a bucket, it contains the snapshots of a shared journal.
    """

    url: str
    store_url: str = ""

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the place that `text` describes, or None if it is the path of an SQLite journal."""
        return cls(**json.loads(text)) if text.startswith("{") else None
