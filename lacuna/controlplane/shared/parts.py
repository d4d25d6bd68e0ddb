"""Limits on requests to the control plane, which makes only one decision at a time.

A command names at most MOST_ITEMS items, and an answer ends after a few thousand items or ANSWER_BYTES. Clients send
long commands in parts, and request the rest of long answers (`lacuna.controlplane.client.parts`).
"""

from typing import Final

#: The maximum numbers of items that a part names, and that its answer lists. Deciding a part takes about 20 ms.
MOST_ITEMS: Final = 2_000
MOST_LISTED: Final = 5_000

#: The answer to a part ends with the item that brings it to this size.
ANSWER_BYTES: Final = 1 << 20

#: The maximum number of items in a command that cannot be sent in parts.
MOST_AT_ONCE: Final = 20_000

#: verb -> the field with the items of a command that can be split, and the field with an answer for each item. An
#: answer may cover only the first few items.
ITEMS: Final = {
    "delete_groups": ("group_ids", "error_codes"),
    "delete_offsets": ("partitions", "error_codes"),
    "delete_records": ("partitions", "partitions"),
    "delete_topics": ("topic_ids", "topics"),
    "describe_consumer_groups": ("group_ids", "groups"),
    "describe_share_groups": ("group_ids", "groups"),
    "describe_groups": ("group_ids", "groups"),
    "describe_producers": ("partitions", "partitions"),
    "describe_transactions": ("transactional_ids", "transactions"),
    "offset_fetch": ("groups", "groups"),
    "read_histories": ("partitions", "histories"),
    "read_hot": ("segments", "segments"),
    "read_partitions": ("partitions", "partitions"),
}

#: verb -> the list in the answer for the last item, which continues after that answer's `next_after`, if set
LISTED: Final = {"describe_producers": "producers", "offset_fetch": "offsets"}

#: verb -> the list in the answer, which continues after the answer's `next_after`, if set
LISTS: Final = {
    "describe_group_configs": "groups",
    "list_groups": "groups",
    "list_transactions": "transactions",
}

#: verb -> the field with the items of a command that is decided as a whole
WHOLE: Final = {
    "add_partitions_to_txn": "partitions",
    "alter_share_offsets": "offsets",
    "create_partitions": "topics",
    "create_topics": "topics",
    "delete_share_offsets": "topic_ids",
    "describe_group_configs": "group_ids",
    "describe_share_offsets": "partitions",
    "offset_commit": "offsets",
    "read_cut": "partitions",
    "share_records": "partitions",
    "txn_offset_commit": "offsets",
}
