"""A stream's progress, as stored in its checkpoint."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lacuna.controlplane.shared.ids import show_id
from lacuna.pipeline.datasource.bounds import ID, TopicPartition
from lacuna.pipeline.extents import PartitionLog


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read in each partition, and the topics' ids.

    A topic that is deleted and recreated has a new id. Offsets without an id, such as those a user wrote, apply to any
    topic of that name.
    """

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def in_logs(
        cls, offsets: Mapping[TopicPartition, int], logs: Iterable[PartitionLog]
    ) -> "Position":
        names = {partition.topic for partition in offsets}
        return cls(
            offsets, {log.topic: show_id(log.topic_id) for log in logs if log.topic in names}
        )

    @classmethod
    def of_json(cls, value: Mapping[str, Mapping[str, Any]]) -> "Position":
        """Parses the form {"topic": {"0": 12, "id": "gV0D…"}}."""
        return cls(
            {
                TopicPartition(topic, int(partition)): offset
                for topic, parts in value.items()
                for partition, offset in parts.items()
                if partition != ID
            },
            {topic: parts[ID] for topic, parts in value.items() if ID in parts},
        )

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Returns the form that `of_json` parses, in a fixed order, because Spark compares positions as text."""
        found: dict[str, dict[str, Any]] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        for topic, parts in found.items():
            if topic in self.topic_ids:
                parts[ID] = self.topic_ids[topic]
        return found

    def is_of(self, log: PartitionLog) -> bool:
        return self.topic_ids.get(log.topic) in (None, show_id(log.topic_id))

    def without(self, topics: Iterable[str]) -> "Position":
        gone = set(topics)
        return Position(
            {each: offset for each, offset in self.offsets.items() if each.topic not in gone},
            {topic: id_ for topic, id_ in self.topic_ids.items() if topic not in gone},
        )
