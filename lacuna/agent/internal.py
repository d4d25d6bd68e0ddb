"""Finds topics, including the internal topics that agents derive from the control plane's state (ADR 43).

No other code is aware of the internal topics. They cannot be written to, and the control plane never lists them.
"""

from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.internal_topics import (
    INTERNAL_BY_NAME,
    INTERNAL_TOPICS,
    NUMBERS_BY_ID,
    internal_by_id,
)
from lacuna.controlplane.v1.cluster_pb2 import Topic


def topic_by_name(cluster: ClusterView, name: str) -> Topic | None:
    return cluster.topics_by_name.get(name) or INTERNAL_BY_NAME.get(name)


def topic_by_id(cluster: ClusterView, topic_id: bytes) -> Topic | None:
    return cluster.topics_by_id.get(topic_id) or internal_by_id(topic_id)


def all_topics(cluster: ClusterView) -> dict[str, Topic]:
    """Return all topics in the order of their names. An internal topic is included once it has records, as in Kafka."""
    internal = [INTERNAL_TOPICS[number] for number in cluster.internal_topics]
    topics = {topic.name: topic for topic in (*cluster.topics_by_name.values(), *internal)}
    return dict(sorted(topics.items()))


def is_internal(topic_id: bytes) -> bool:
    return topic_id in NUMBERS_BY_ID
