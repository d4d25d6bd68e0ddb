"""The topics that agents derive from the control plane's state: __consumer_offsets and __transaction_state (ADR 43).

They are not in the control plane's list of topics. Their names, ids and kinds of records are the same in every cluster.
"""

from enum import IntEnum
from functools import lru_cache
from typing import Final

from lacuna.controlplane.v1.cluster_pb2 import Topic

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"

#: Kafka's defaults of offsets.topic.num.partitions and transaction.state.log.num.partitions.
PARTITION_COUNT: Final = 50

#: In messages of the control plane, the number of a topic is its index in this list. The ids are version 5 UUIDs of
#: "lacuna:" and the name, in the OID namespace.
INTERNAL_TOPICS: Final = tuple(
    Topic(
        topic_id=bytes.fromhex(topic_id),
        name=name,
        partition_count=PARTITION_COUNT,
        configs={"cleanup.policy": "compact"},
    )
    for name, topic_id in (
        (CONSUMER_OFFSETS, "41b1c33be34959518285dca966c2f979"),
        (TRANSACTION_STATE, "e06e514bddb757f88e6f24a956495d27"),
    )
)
OFFSETS_NUMBER: Final = 0
TRANSACTIONS_NUMBER: Final = 1
NUMBERS_BY_ID: Final = {topic.topic_id: number for number, topic in enumerate(INTERNAL_TOPICS)}
INTERNAL_BY_NAME: Final = {topic.name: topic for topic in INTERNAL_TOPICS}

#: In Kafka, these topics contain the state of share groups and the metadata. If a client created an empty one, tools
#: that read it would conclude that there is no such state.
KAFKAS_OWN: Final = frozenset({"__cluster_metadata", "__share_group_state"})

#: The error message for attempts to change one.
READ_ONLY: Final = (
    "it is derived from the control plane's state and is read-only; change groups, offsets and "
    "transactions with their own requests"
)

_UINT32: Final = 0xFFFFFFFF
_INT32: Final = 0x7FFFFFFF


class Kind(IntEnum):
    """The kinds of records. The numbers are the versions of Kafka's keys, which identify a record's contents."""

    TRANSACTION = 0
    OFFSET = 1
    GENERATION = 2
    GROUP_EPOCH = 3
    SUBSCRIPTION = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8


def internal_by_id(topic_id: bytes) -> Topic | None:
    number = NUMBERS_BY_ID.get(topic_id)
    return None if number is None else INTERNAL_TOPICS[number]


@lru_cache(maxsize=65_536)
def partition_of(name: str) -> int:
    """Return the partition that holds the records of a group or transactional id, chosen as in Kafka.

    It is derived from the absolute value (0 for the smallest integer) of Java's hash of the UTF-16 code units.
    """
    units = name.encode("utf-16-be", "surrogatepass")
    found = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & _UINT32
    absolute = found if found <= _INT32 else _UINT32 + 1 - found
    return (absolute & _INT32) % PARTITION_COUNT
