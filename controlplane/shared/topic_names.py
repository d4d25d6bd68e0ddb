"""The topic names that Kafka uses internally and that cannot be created here."""

from typing import Final

#: In Kafka these topics hold committed offsets, transactions and metadata. Here they do not exist; if someone created
#: an empty one, tools that read it would conclude that there are no groups.
KAFKAS_OWN: Final = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"}
)
