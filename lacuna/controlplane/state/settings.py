"""Durations and bounds of the state machine, with Kafka's names and defaults where Kafka has them."""

from typing import Final

#: broker.session.timeout.ms. Clients keep contacting a silently disconnected agent for this long, so it must be less
#: than the 10 s after which a transaction of Kafka Streams times out.
LEASE_DURATION_MS: Final = 9_000

#: The time from the end of an agent's session until clients are sent to other agents. Together with the time in which a
#: group's member finds its new coordinator, it must be well below half of a session.timeout.ms of 6 s.
SESSION_GRACE_MS: Final = 1_000

#: How long agents have to reconnect after the control plane starts. They pause for at most 2 s between two attempts.
RECONNECT_GRACE_MS: Final = 5_000

#: How long a departed agent remains listed as a broker: longer than librdkafka remembers a group's coordinator
#: (metadata.max.age.ms, 15 minutes).
MISSED_MS: Final = 1_200_000

#: The maximum number of departed agents listed as brokers, of which the latest are kept. A client that picks a random
#: broker may try each of them in vain.
MOST_MISSED: Final = 16

#: The maximum time by which a killed job delays the sweep of its objects.
LONGEST_JOB_LEASE_MS: Final = 24 * 3_600_000

TRANSACTION_MAX_TIMEOUT_MS: Final = 900_000
TRANSACTIONAL_ID_EXPIRATION_MS: Final = 7 * 24 * 3_600_000
#: Idempotence windows expire by the hour of their last use.
HOUR_MS: Final = 3_600_000
PRODUCER_ID_EXPIRATION_MS: Final = 24 * 3_600_000

DEFAULT_PARTITIONS: Final = 1  # num.partitions
MAX_PARTITIONS: Final = 10_000  # in one topic
MAX_NEW_PARTITIONS: Final = 10_000  # in one command, as in Kafka
MAX_TOPIC_NAME: Final = 249
MOST_PARTITIONS: Final = 200_000  # in a cluster

#: The maximum number of bytes of all transactional ids, including the groups and partitions of their transactions.
MOST_TRANSACTIONAL_ID_BYTES: Final = 256 << 20
MOST_GROUPS_OF_TRANSACTION: Final = 1_000
#: The maximum number of partitions in one transaction, and of offsets staged in it. The end of a transaction is a
#: single step, which takes about 50 ms at these maxima.
MOST_OF_TRANSACTION: Final = 20_000

#: How long a replaced object is kept, for fetches planned before its replacement, and how long after its end a lease is
#: swept. This is longer than any PUT takes.
COLLECTION_GRACE_MS: Final = 300_000
LONGEST_PIN_MS: Final = 7 * 24 * 3_600_000

#: The maximum number of items of one kind that a tick processes, which takes about 20 ms. The next tick continues.
MAX_PER_TICK: Final = 2_000

#: The maximum number of groups that a tick checks for passed deadlines, and of offsets whose retention it checks.
GROUPS_PER_TICK: Final = 500
OFFSETS_PER_TICK: Final = 50_000

#: The maximum number of segments in one collection plan.
COLLECTED_AT_ONCE: Final = 10_000

#: The maximum number of deleted extents' references that a tick releases, and the number of objects awaiting collection
#: above which it releases none, since such objects take ten times the memory.
RELEASED_PER_TICK: Final = 20_000
MOST_REPLACED: Final = 500_000

#: How often a partition's records are checked against retention.ms, as in Kafka (log.retention.check.interval.ms), or
#: once per retention.ms if that is shorter. So records that are too old on arrival, as in a replay or a test with its
#: own timestamps, remain readable for a while.
RETENTION_CHECK_MS: Final = 300_000

#: The maximum number of partitions that a tick checks for expired records.
RETENTION_SCAN: Final = 256

#: The maximum number of extents that retention removes in one tick.
RETENTION_EXTENTS: Final = 10_000

#: The maximum number of extents below the last stable offset that merging examines in a partition, and a plan's maximum
#: numbers of extents (counting visits and examined extents at their cost) and of partitions.
MERGE_WINDOW: Final = 2_048
MERGE_EXTENTS: Final = 16_384
MERGE_PARTITIONS: Final = 1_000

#: The maximum numbers of topics and dirty extents that one cleaning plan examines, and of extents in one range.
CLEANING_TOPICS: Final = 10_000
CLEANING_SCAN: Final = 65_536
CLEANING_EXTENTS: Final = 8_192

#: The maximum number of extents that one DescribeMerges examines, which takes about 10 ms.
DESCRIBED_EXTENTS: Final = 65_536

#: How many extents of a partition a delta shows to a new watcher, which takes about 10 ms. The next delta continues.
SHOWN_EXTENTS: Final = 65_536

#: Agents' reports with more bytes than this are dropped.
MAX_REPORT_BYTES: Final = 65_536
#: The maximum number of importers whose reports are kept. Only these copy partitions; the others wait.
MOST_IMPORTERS: Final = 1_000

#: The maximum number of extents in a compaction plan. A plan of this size is a message of 20 MB.
COMPACTION_EXTENTS: Final = 250_000
