"""Bounds on requests to the control plane, which decides nothing else during a decision.

A command names at most MOST_ITEMS things, and an answer ends after some thousand things or ANSWER_BYTES. Clients send
long commands in parts, and request the rest of long answers (`lacuna.controlplane.client.parts`).
"""

from typing import Final

#: The most things that a part names, and that it lists. Deciding it takes some 20 ms.
MOST_ITEMS: Final = 2_000
MOST_LISTED: Final = 5_000

#: The answer to a part ends with the item that makes it this large.
ANSWER_BYTES: Final = 1 << 20

#: The most things in a command that cannot be sent in parts.
MOST_AT_ONCE: Final = 20_000

#: verb -> the field with the items of a command, which may be split, and the field with an answer for each. Possibly
#: only the first items are answered.
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

#: verb -> the field of the last answer, which continues after its `next_after` if it has one
LISTED: Final = {"describe_producers": "producers", "offset_fetch": "offsets"}

#: verb -> the field with a list, which continues after the answer's `next_after` if it has one
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
