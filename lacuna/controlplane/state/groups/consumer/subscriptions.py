"""Resolves subscriptions to topics, which are named or match a regular expression.

As in Kafka, the expression uses RE2's syntax and must match the whole topic name. RE2's matching time is linear in the
lengths of the name and of the compiled expression, so the latter is bounded.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

import re2

#: The maximum number of bytes of memory for a compiled pattern; RE2 rejects patterns that need more.
_MAX_PATTERN_MEMORY: Final = 1 << 20
_MAX_PATTERN_SIZE: Final = 4096
#: The maximum number of instructions in a compiled pattern. "(.?){999}" has tens of thousands, and takes 20 ms for each
#: topic name.
_MAX_PROGRAM_SIZE: Final = 5000
#: The bound on a Resolver's cache: names, topics and characters of expressions, plus _ENTRY_SIZE for each entry.
_MAX_REMEMBERED: Final = 1_000_000
_ENTRY_SIZE: Final = 64


class ClusterTopics(Protocol):
    """The cluster's topics, in the form that groups need."""

    @property
    def version(self) -> int:
        """A number that changes whenever the topics change."""

    def find(self, name: str) -> tuple[bytes, int] | None:
        """Return the topic's id and partition count, or None if it does not exist."""

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the topic's name, or None if it does not exist."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""


#: topic id -> partition count, in the order of the topics' names.
TopicCounts = Mapping[bytes, int]


class Resolver:
    """Resolves subscriptions, and caches the results until the topics' version changes.

    A group's members usually have equal subscriptions, which are all resolved each time a member joins. Equal
    subscriptions resolve to the same object, so assignors can compare them cheaply.
    """

    def __init__(self) -> None:
        self._version: int | None = None
        self._matched: dict[str, tuple[str, ...]] = {}
        self._resolved: dict[tuple[tuple[str, ...], str], TopicCounts] = {}
        self._remembered = 0

    def resolve(
        self, topics: ClusterTopics, topic_names: tuple[str, ...], topic_regex: str
    ) -> TopicCounts:
        """Return the existing topics with one of the names, or matching the expression (unless it is "")."""
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

    def _matching(self, topics: ClusterTopics, topic_regex: str) -> tuple[str, ...]:
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
        """Make room for one more entry by dropping all entries if there are too many."""
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
    # Captured groups are not needed, and finding them takes three times as long.
    options.never_capture = True
    return options


@lru_cache(maxsize=256)
def compile_pattern(topic_regex: str) -> Any:
    """Return RE2's compiled pattern, or None if the expression is invalid or too large."""
    if len(topic_regex) > _MAX_PATTERN_SIZE:
        return None
    try:
        pattern = re2.compile(topic_regex, _options())
    except re2.error:
        return None
    return pattern if pattern.programsize <= _MAX_PROGRAM_SIZE else None
