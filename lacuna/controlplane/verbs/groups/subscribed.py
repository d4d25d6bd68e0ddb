"""Finds the topics that a classic group reads, from its members' metadata."""

from lacuna.controlplane.state.groups.live import LiveGroup
from lacuna.controlplane.verbs.groups.consumer import embedded


def subscribed_topics(group: LiveGroup) -> set[str] | None:
    """Return the topics that any member subscribes to, or None if the metadata cannot be read."""
    topics: set[str] = set()
    try:
        for member in group.members.values():
            for _, metadata in member.protocols:
                topics.update(embedded.read_subscription(metadata).topic_names)
    except embedded.MalformedProtocolError:
        return None
    return topics
