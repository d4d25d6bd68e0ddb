"""Where rows go: the topics of the cluster as a task found them, and the slots of what it writes.

A slot is a number for one partition of one topic, in the order of their first use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from controlplane.topic_configs import effective, stored_compression
from controlplane.v1.cluster_pb2 import Topic
from logstore.records.compression import Compression
from pipeline.errors import PipelineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic that is written to, and what its configs demand (S11). Sizes in bytes, times in ms.

    `first_slot` is that of its partition 0; those of the others follow. `compression` is the topic's own,
    None where the writer chooses.
    """

    name: str
    topic_id: bytes
    partition_count: int
    first_slot: int
    max_message_bytes: int
    is_log_append_time: bool
    requires_keys: bool
    max_before_ms: int
    max_after_ms: int
    compression: Compression | None


class Targets:
    """The topics that this task has met. `topics` are those of the cluster, by name."""

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics
        self._by_name: dict[str, Target] = {}
        self._slots: list[tuple[Target, int]] = []

    def of(self, name: str) -> Target:
        """The topic called `name`. Raises PipelineError where there is none."""
        return self._by_name.get(name) or self._add(name)

    def at(self, slot: int) -> tuple[Target, int]:
        """The topic and partition of a slot."""
        return self._slots[slot]

    def names(self) -> dict[bytes, str]:
        """Of all that were met, by topic id."""
        return {target.topic_id: name for name, target in self._by_name.items()}

    def _add(self, name: str) -> Target:
        topic = self._topics.get(name)
        if topic is None:
            alike = get_close_matches(name, self._topics, 1)
            raise PipelineError(
                f"there is no topic {name!r}"
                + (f" (but {alike[0]!r})" if alike else "")
                + ": create "
                "it first, nothing was written"
            )
        configs = topic.configs
        stored = stored_compression(configs)
        target = Target(
            name=name,
            topic_id=topic.topic_id,
            partition_count=topic.partition_count,
            first_slot=len(self._slots),
            max_message_bytes=int(effective(configs, "max.message.bytes")),
            is_log_append_time=effective(configs, "message.timestamp.type") == "LogAppendTime",
            requires_keys="compact" in effective(configs, "cleanup.policy").split(","),
            max_before_ms=int(effective(configs, "message.timestamp.before.max.ms")),
            max_after_ms=int(effective(configs, "message.timestamp.after.max.ms")),
            compression=None if stored is None else Compression.of_kafka(*stored),
        )
        self._by_name[name] = target
        self._slots += [(target, partition) for partition in range(target.partition_count)]
        return target
