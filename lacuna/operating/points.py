"""Points in a topic's partitions, as users of commands and the console enter them."""

import re
from dataclasses import dataclass
from datetime import tzinfo
from enum import Enum
from typing import Final

from lacuna.controlplane.client.times import time_of

_OFFSET: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_END: Final = re.compile(r"end(?:-([0-9]{1,19}))?", re.ASCII)
_LAST_OFFSET: Final = (1 << 63) - 1


class Kind(Enum):
    """The reference from which a point is measured."""

    EARLIEST = "earliest"
    END = "end"
    OFFSET = "offset"
    TIME = "time"
    NEVER = "never"
    PAST = "past"


@dataclass(frozen=True, slots=True)
class Point:
    """A point in every partition of a topic.

    `value` is an offset, a time in milliseconds since 1970, or a number of offsets before the end. TIME is the first
    record at or after that time; PAST is the partition's end at that time.
    """

    kind: Kind
    value: int = 0


def point_of(text: str, now_ms: int, zone: tzinfo | None = None) -> Point | None:
    """Parse `earliest`, `end`, `end-100`, an offset, a time or a duration before now. Return None for other text.

    A time without a time zone is in `zone`, or in local time if `zone` is None.
    """
    if text == "earliest":
        return Point(Kind.EARLIEST)
    if _OFFSET.fullmatch(text) and int(text) <= _LAST_OFFSET:
        return Point(Kind.OFFSET, int(text))
    if match := _END.fullmatch(text):
        return Point(Kind.END, int(match[1] or 0))
    time_ms = time_of(text, now_ms, zone)
    return None if time_ms is None else Point(Kind.TIME, time_ms)
