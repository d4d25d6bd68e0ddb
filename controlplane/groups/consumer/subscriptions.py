"""Which topics a subscription means: names, and a regular expression as RE2 reads it.

An expression has to match the whole name of a topic, as in Kafka. RE2 matches in a time that is linear in the
name and in the program that the expression becomes, whose size is bounded for this.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

import re2

#: Of a compiled pattern in memory, bytes; RE2 refuses what needs more.
_MAX_PATTERN_MEMORY: Final = 1 << 20
_MAX_PATTERN_SIZE: Final = 4096
#: Instructions. "(.?){999}" and its like become tens of thousands: 20 ms a name, for every topic.
_MAX_PROGRAM_SIZE: Final = 5000
#: Of names and topics that a Resolver keeps, characters of expressions, and so much for each subscription.
_MAX_REMEMBERED: Final = 1_000_000
_ENTRY_SIZE: Final = 64


class Topics(Protocol):
    """The topics of the cluster as far as groups care. `version` changes with any of them."""

    @property
    def version(self) -> int:
        """Equal versions, equal topics."""

    def find(self, name: str) -> tuple[bytes, int] | None:
        """Id and partition count."""

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic's name; None: no such topic."""

    def names(self) -> Iterable[str]:
        """All topics."""


class NoTopics:
    """A cluster without topics."""

    version = 0

    def find(self, name: str) -> tuple[bytes, int] | None:  # noqa: ARG002
        """None."""
        return None

    def name_of(self, topic_id: bytes) -> str | None:  # noqa: ARG002
        """None."""
        return None

    def names(self) -> Iterable[str]:
        """None at all."""
        return ()


#: Topic id to partition count, in the order of the topics' names.
TopicCounts = Mapping[bytes, int]


class Resolver:
    """Resolves subscriptions. It remembers what they mean until the topics' version changes.

    The members of a group mostly want the same, and each that joins asks for all of them: equal
    subscriptions get one value, by which an assignor sees at once that they are equal.
    """

    def __init__(self) -> None:
        self._version: int | None = None
        self._matched: dict[str, tuple[str, ...]] = {}
        self._resolved: dict[tuple[tuple[str, ...], str], TopicCounts] = {}
        self._remembered = 0

    def resolve(
        self, topics: Topics, topic_names: tuple[str, ...], topic_regex: str
    ) -> TopicCounts:
        """Those that exist."""
        if self._version != topics.version:
            self._forget()
            self._version = topics.version
        resolved = self._resolved.get((topic_names, topic_regex))
        if resolved is None:
            names = {*topic_names, *self._matching(topics, topic_regex)}
            found = (topics.find(name) for name in sorted(names))
            resolved = dict(each for each in found if each is not None)
            self._make_room(len(topic_names) + len(resolved) + len(topic_regex))
            self._resolved[topic_names, topic_regex] = resolved
        return resolved

    def _matching(self, topics: Topics, topic_regex: str) -> tuple[str, ...]:
        if not topic_regex:
            return ()
        matched = self._matched.get(topic_regex)
        if matched is None:
            pattern = compile_pattern(topic_regex)
            names = topics.names() if pattern is not None else ()
            matched = tuple(name for name in names if pattern.fullmatch(name))
            self._make_room(len(matched) + len(topic_regex))
            self._matched[topic_regex] = matched
        return matched

    def _make_room(self, size: int) -> None:
        """For one entry more; where there is none, all go."""
        if self._remembered + size + _ENTRY_SIZE > _MAX_REMEMBERED:
            self._forget()
        self._remembered += size + _ENTRY_SIZE

    def _forget(self) -> None:
        self._matched.clear()
        self._resolved.clear()
        self._remembered = 0


def _options() -> Any:
    options = re2.Options()
    options.max_mem = _MAX_PATTERN_MEMORY
    options.log_errors = False
    # Nobody asks for groups, and telling them takes three times as long.
    options.never_capture = True
    return options


@lru_cache(maxsize=256)
def compile_pattern(topic_regex: str) -> Any:
    """RE2's pattern, or None where it is none, or too large."""
    if len(topic_regex) > _MAX_PATTERN_SIZE:
        return None
    try:
        pattern = re2.compile(topic_regex, _options())
    except re2.error:
        return None
    return pattern if pattern.programsize <= _MAX_PROGRAM_SIZE else None
