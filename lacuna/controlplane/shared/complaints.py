"""Keeps a log from repeating messages about a host."""

from collections import OrderedDict
from typing import Final

_QUIET_SECONDS: Final = 60.0
_MOST: Final = 1000
_MOST_CHARACTERS: Final = 200


class Complaints:
    """Limits each log message about a host to once a minute, since clients reconnect several times a second."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], float] = OrderedDict()

    def is_new(self, host: str, text: str, now: float) -> bool:
        """Return whether `text` has not been logged about `host` in the last minute, and record it as logged at `now`
        (seconds).
        """
        if len(text) > _MOST_CHARACTERS:  # a client may have chosen it
            text = f"{text[:_MOST_CHARACTERS]} {hash(text)}"
        said = self._said.get((host, text))
        if said is not None and now - said < _QUIET_SECONDS:
            return False
        self._said[host, text] = now
        self._said.move_to_end((host, text))
        if len(self._said) > _MOST:
            self._said.popitem(last=False)
        return True
