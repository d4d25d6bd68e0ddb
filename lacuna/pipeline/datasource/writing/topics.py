"""The topics that a task writes to, and the slots of their partitions.

A slot is a number that stands for one partition of one topic. Topics are assigned slots in order of first use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from lacuna.controlplane.shared.topic_configs import effective, stored_compression
from lacuna.controlplane.v1.cluster_pb2 import Topic
from lacuna.logstore.records.compression import Compression
from lacuna.pipeline.errors import PipelineError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic to write to, and the limits that its configs set (S11). Sizes are in bytes, and times are in ms.

    `first_slot` is the slot of partition 0; those of the other partitions follow. `compression` is the topic's own
    codec, or None if the writer may choose.
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
    """The topics that a task has written to so far. `topics` contains the cluster's topics by name.

    `whose` is inserted into the error for a missing topic, if ACLs may hide topics.
    """

    def __init__(self, topics: Mapping[str, Topic], whose: str = "") -> None:
        self._whose = whose
        self._topics = topics
        self._by_name: dict[str, Target] = {}
        self._slots: list[tuple[Target, int]] = []

    def of(self, name: str) -> Target:
        """Returns the topic with this name. Raises PipelineError if there is none."""
        return self._by_name.get(name) or self._add(name)

    def at(self, slot: int) -> tuple[Target, int]:
        return self._slots[slot]

    def names(self) -> dict[bytes, str]:
        """Returns the names of the topics used so far, by topic id."""
        return {target.topic_id: name for name, target in self._by_name.items()}

    def _add(self, name: str) -> Target:
        topic = self._topics.get(name)
        if topic is None:
            alike = get_close_matches(name, self._topics, 1)
            raise PipelineError(
                f"there is no topic {name!r}{self._whose}"
                + (f" (but {alike[0]!r} exists)" if alike else "")
                + ": create it first. Nothing was written"
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


def check_timestamps(timestamps: pa.Array, target: Target, now_ms: int) -> None:
    """Raises PipelineError if the topic `target` does not accept one of the timestamps (in ms) at `now_ms`."""
    bounds = pc.min_max(timestamps).as_py()
    smallest, largest = bounds["min"], bounds["max"]
    if smallest is None:
        return
    if smallest < 0:
        raise PipelineError(
            f"a row's timestamp is {-smallest} ms before 1970, but Kafka does not support such "
            "timestamps: filter out such rows, or drop the column 'timestamp' to use the time of "
            "writing"
        )
    if target.is_log_append_time:
        return
    if largest - now_ms > target.max_after_ms:
        raise _outside(target, largest, "after", "ahead of", largest - now_ms)
    if now_ms - smallest > target.max_before_ms:
        raise _outside(target, smallest, "before", "behind", now_ms - smallest)


def _outside(
    target: Target, timestamp: int, bound: str, word: str, distance_ms: int
) -> PipelineError:
    return PipelineError(
        f"a row's timestamp {timestamp} is {distance_ms} ms {word} the time of writing, more than topic "
        f"{target.name!r} accepts (message.timestamp.{bound}.max.ms): raise that limit, or drop the column "
        "'timestamp'"
    )
