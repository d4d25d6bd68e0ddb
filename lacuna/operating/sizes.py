"""The sizes of topics, from the control plane's data."""

from collections.abc import Mapping
from typing import NamedTuple

from lacuna.controlplane.client import ControlClient
from lacuna.operating import questions


class TopicSize(NamedTuple):
    """A topic's retained offsets and bytes, and the sum of its partitions' end offsets."""

    records: int = 0
    bytes: int = 0
    end: int = 0


async def sizes_of_topics(control: ControlClient) -> Mapping[bytes, TopicSize]:
    """Return the size of each topic, by topic id. Raises ControlPlaneUnavailable."""
    topics = control.cluster.topics_by_id
    keys = questions.partitions_of(topics.values())
    states = await questions.read_partitions(control, keys)
    sizes = dict.fromkeys(topics, TopicSize())
    for key, state in zip(keys, states, strict=True):
        known = sizes[key.topic_id]
        sizes[key.topic_id] = TopicSize(
            known.records + state.high_watermark - state.log_start_offset,
            known.bytes + state.size,
            known.end + state.high_watermark,
        )
    return sizes
