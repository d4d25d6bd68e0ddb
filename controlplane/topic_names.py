"""Names of topics that Kafka keeps for itself and nobody may create here."""

from typing import Final

#: Kafka keeps committed offsets, transactions and its own metadata in these. Here they are no topics; an empty one of
#: such a name would tell the tools that read it that there are no groups.
KAFKAS_OWN: Final = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"}
)
