"""The errors of a message set, in addition to those of any records."""

from __future__ import annotations

from lacuna.logstore.records.errors import InvalidRecordError, RecordsError


class CorruptMessageError(RecordsError):
    """A message with wrong bytes; `position` is that of its entry in its set, in bytes."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"corrupt message at byte {position} of its set: {reason}; send it again")
        self.reason = reason
        self.position = position


class EmptyMessageSetError(InvalidRecordError):
    """A message set that has no whole message."""

    def __init__(self) -> None:
        super().__init__("the message set holds no whole message; send at least one")
