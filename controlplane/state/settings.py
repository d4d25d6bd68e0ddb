"""Durations and bounds of the state machine.

Those that Kafka has carry Kafka's names and defaults.
"""

from typing import Final

#: broker.session.timeout.ms. Clients go on asking for as long for an agent that is cut off without a
#: word: it has to be less than the 10 s after which a transaction of Kafka Streams times out.
LEASE_DURATION_MS: Final = 9_000

#: Clients are sent elsewhere so long after an agent's session broke: with the time in which a member
#: finds its new coordinator it has to be well below half a session.timeout.ms of 6 s.
SESSION_GRACE_MS: Final = 1_000

#: After a start of the control plane agents have so long to connect again; the longest pause between
#: two attempts is 2 s.
RECONNECT_GRACE_MS: Final = 5_000

#: A job that is killed holds back the sweep of its objects for at most so long.
LONGEST_JOB_LEASE_MS: Final = 24 * 3_600_000

TRANSACTION_MAX_TIMEOUT_MS: Final = 900_000
TRANSACTIONAL_ID_EXPIRATION_MS: Final = 7 * 24 * 3_600_000
PRODUCER_ID_EXPIRATION_MS: Final = 24 * 3_600_000

DEFAULT_PARTITIONS: Final = 1  # num.partitions
MAX_PARTITIONS: Final = 10_000  # of one topic
MAX_NEW_PARTITIONS: Final = 10_000  # of one command, as in Kafka
MAX_TOPIC_NAME: Final = 249

#: A replaced object is kept so long for fetches that planned before; an ended lease is swept after
#: it, which is longer than the longest PUT takes.
COLLECTION_GRACE_MS: Final = 300_000
LONGEST_PIN_MS: Final = 7 * 24 * 3_600_000

#: A tick's records name at most so many things; the next tick goes on.
MAX_PER_TICK: Final = 10_000

#: The ages of a partition's records are held against retention.ms so often, as Kafka does
#: (log.retention.check.interval.ms), and once in retention.ms where that is shorter: records that are too old when they
#: come, a replay or a test with timestamps of its own, can be read for a while.
RETENTION_CHECK_MS: Final = 300_000

#: A tick looks at so many partitions for records past their retention.
RETENTION_SCAN: Final = 256

#: Merging looks at so many extents below the last stable offset of a partition, and at so many in
#: one plan.
MERGE_WINDOW: Final = 2_048
MERGE_SCAN: Final = 8_192
MERGE_PARTITIONS: Final = 1_000

#: A compaction plan names at most so many extents: 20 MB of a message.
COMPACTION_EXTENTS: Final = 250_000
