"""The names of Kafka's internal topics that do not exist here. `internal_topics` has those that do."""

from typing import Final

#: In Kafka, these topics hold the state of share groups and the metadata. If a client created an empty one, tools that
#: read it would conclude that there is no such state.
KAFKAS_OWN: Final = frozenset({"__cluster_metadata", "__share_group_state"})
