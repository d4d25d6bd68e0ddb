"""The topic names that Kafka uses internally and that do not exist here. `internal_topics` has those that do."""

from typing import Final

#: In Kafka these topics hold the state of share groups and the metadata. If someone created an empty one, tools that
#: read it would conclude that there are none.
KAFKAS_OWN: Final = frozenset({"__cluster_metadata", "__share_group_state"})
