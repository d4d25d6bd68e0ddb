"""The cluster's topics as groups see them (the `ClusterTopics` of `state.groups.consumer.subscriptions`)."""

from collections.abc import Iterable

from lacuna.controlplane.shared.internal_topics import INTERNAL_BY_NAME, internal_by_id
from lacuna.controlplane.state.state import State


class TopicsOfGroups:
    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def version(self) -> int:
        """The cluster's version. It also changes when agents change, and groups then check their topics needlessly."""
        return self._state.cluster_version

    def find(self, name: str) -> tuple[bytes, int] | None:
        topic = self._state.topics_by_name.get(name)
        if topic is not None:
            return topic.topic_id, len(topic.partitions)
        internal = INTERNAL_BY_NAME.get(name)
        return None if internal is None else (internal.topic_id, internal.partition_count)

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._state.topics.get(topic_id) or internal_by_id(topic_id)
        return None if topic is None else topic.name

    def names(self) -> Iterable[str]:
        """Return the names of all topics except internal ones, which patterns do not match."""
        return self._state.topics_by_name
