"""Remembers which messages about a host were logged recently."""

from collections import OrderedDict
from typing import Final

_QUIET_SECONDS: Final = 60.0
_MOST: Final = 1000
_MOST_CHARACTERS: Final = 200


class Complaints:
    """Limits repeated log messages about a host to one a minute, since clients reconnect several times a second."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], float] = OrderedDict()

    def is_new(self, host: str, text: str, now: float) -> bool:
        """Return whether `text` has not been logged about `host` in the last minute. If it has not, record that it is
        logged now. `now` is in seconds.
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
