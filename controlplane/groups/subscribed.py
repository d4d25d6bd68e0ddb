"""Which topics a classic group reads, as far as its members' metadata say so."""

from controlplane.groups.consumer import embedded
from controlplane.groups.live import LiveGroup


def subscribed_topics(group: LiveGroup) -> set[str] | None:
    """The names that any member subscribes to; None where they cannot be read, and may be any."""
    topics: set[str] = set()
    try:
        for member in group.members.values():
            for _, metadata in member.protocols:
                topics.update(embedded.read_subscription(metadata).topic_names)
    except embedded.MalformedProtocolError:
        return None
    return topics
