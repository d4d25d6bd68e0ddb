"""The cluster's topics as groups look at them: `controlplane.groups.Topics` over the state."""

from collections.abc import Iterable

from controlplane.state.state import State


class TopicsOfGroups:
    """A view, made for one decision."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def version(self) -> int:
        """It also changes with the agents; groups then look once more, and find nothing new."""
        return self._state.cluster_version

    def find(self, name: str) -> tuple[bytes, int] | None:
        """Id and partition count."""
        topic = self._state.topics_by_name.get(name)
        return None if topic is None else (topic.topic_id, len(topic.partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic's name; None: no such topic."""
        topic = self._state.topics.get(topic_id)
        return None if topic is None else topic.name

    def names(self) -> Iterable[str]:
        """All topics."""
        return self._state.topics_by_name
