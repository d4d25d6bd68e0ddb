"""Tests what ACLs let jobs do: each verb with the rights that it needs, and with any one of them missing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import pytest

from lacuna.controlplane.machine import VERBS
from lacuna.controlplane.rights import Job, JobRights
from lacuna.controlplane.shared.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lacuna.controlplane.shared.audit import Audit
from lacuna.controlplane.shared.authorizer import DENIED, Authorizer
from lacuna.controlplane.shared.batches import COMMITTED_BATCH, SegmentSlice, commit_of
from lacuna.controlplane.shared.internal_topics import INTERNAL_TOPICS
from lacuna.controlplane.shared.partitions import key_of
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.security import AclEntry
from lacuna.controlplane.state.state import NO_NODE, Lease, State, TopicState
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta, TopicPartition
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    ConsumerGroupsDescribed,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    GroupConfigs,
    GroupConfigsDescribed,
    TopicIdPartitions,
)
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.groups_pb2 import (
    CommittedOffset,
    FetchedGroup,
    GroupsListed,
    ListedGroup,
    OffsetsFetched,
)
from lacuna.controlplane.v1.log_pb2 import ReadAsOf, SegmentId, SwapExtents, SwapPartition
from lacuna.controlplane.v1.security_pb2 import SecurityChanges
from lacuna.controlplane.v1.transactions_pb2 import (
    InitProducerId,
    TransactionDescription,
    TransactionListing,
    TransactionsDescribed,
    TransactionsListed,
)
from tests.controlplane.verbs.cluster import ADDS_PARTITION, TRANSACTIONAL

if TYPE_CHECKING:
    from collections.abc import Sequence

JOB: Final = Job("CN=job,O=tests", "10.0.0.7")
ORDERS, SECRET = b"o" * 16, b"s" * 16
AGENTS_LEASE, JOBS_LEASE = 1, 2

READ, WRITE, ALTER = Operation.READ, Operation.WRITE, Operation.ALTER
DESCRIBE, DESCRIBE_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TXN = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID

#: An operation, a type of resource and a name.
Grant = tuple[Operation, ResourceType, str]

ORDER: Final = TopicPartition(topic_id=ORDERS, partition=0)
OWN: Final = SegmentId(lease_id=JOBS_LEASE, sequence=1)
ANY_WORK: Final[Sequence[Grant]] = [(ALTER, TOPIC, "orders")]
READS: Final[Sequence[Grant]] = [(READ, TOPIC, "orders")]
SEES: Final[Sequence[Grant]] = [(DESCRIBE, TOPIC, "orders")]
ON_CLUSTER: Final[Sequence[Grant]] = [(DESCRIBE, CLUSTER, CLUSTER_NAME)]
OF_TXN: Final[Sequence[Grant]] = [(WRITE, TXN, "tx")]
OF_AGENT: Final[Sequence[Grant]] = [(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)]

#: A verb, the fields of a command, and all that it needs.
CASES: Final[Sequence[tuple[str, Any, Sequence[Grant]]]] = [
    (
        "add_offsets_to_txn",
        {"transactional_id": "tx", "group_id": "g"},
        [*OF_TXN, (READ, GROUP, "g")],
    ),
    (
        "add_partitions_to_txn",
        {"transactional_id": "tx", "partitions": [ORDER]},
        [*OF_TXN, (WRITE, TOPIC, "orders")],
    ),
    (
        "commit_segment",
        commit_of(OWN, 0, [SegmentSlice(key_of(ORDER))], ["tx"]),
        [*OF_TXN, (WRITE, TOPIC, "orders")],
    ),
    ("commit_segment", {"segment": {"lease_id": AGENTS_LEASE}}, OF_AGENT),
    ("describe_cluster", {}, ON_CLUSTER),
    ("describe_consumer_groups", {"group_ids": ["g"]}, [(DESCRIBE, GROUP, "g")]),
    ("describe_share_groups", {"group_ids": ["g"]}, [(DESCRIBE, GROUP, "g")]),
    ("describe_streams_groups", {"group_ids": ["g"]}, [(DESCRIBE, GROUP, "g")]),
    ("describe_group_configs", {"group_ids": ["g"]}, [(DESCRIBE_CONFIGS, GROUP, "g")]),
    ("describe_groups", {"group_ids": ["g"]}, [(DESCRIBE, GROUP, "g")]),
    ("describe_leases", {}, ANY_WORK),
    ("describe_merges", {"topic_ids": [ORDERS]}, ON_CLUSTER),
    ("describe_producers", {"partitions": [ORDER]}, READS),
    ("describe_transactions", {"transactional_ids": ["tx"]}, [(DESCRIBE, TXN, "tx")]),
    ("end_txn", {"transactional_id": "tx"}, OF_TXN),
    ("filter_uncommitted", {"segments": [OWN]}, [(READ, TOPIC, "*")]),
    ("init_producer_id", {"transactional_id": "tx", "has_transactional_id": True}, OF_TXN),
    ("init_producer_id", {}, [(WRITE, TOPIC, "orders")]),
    (
        "import_segment",
        {"segment": OWN, "slices": [{"partition": ORDER}]},
        [(WRITE, TOPIC, "orders")],
    ),
    ("list_groups", {}, []),
    ("list_transactions", {}, []),
    (
        "offset_fetch",
        {"groups": [{"group_id": "g", "partitions": [ORDER]}]},
        [(DESCRIBE, GROUP, "g"), *SEES],
    ),
    (
        "describe_share_offsets",
        {"group_id": "g", "partitions": [ORDER]},
        [(DESCRIBE, GROUP, "g"), *SEES],
    ),
    ("open_lease", {}, ANY_WORK),
    ("pin_reads", {}, READS),
    ("plan_compaction", {"partitions": [ORDER]}, READS),
    (
        "plan_compaction",
        {"partitions": [ORDER], "is_for_swap": True},
        [*READS, (ALTER, TOPIC, "orders")],
    ),
    ("read_cut", {"partitions": [ORDER]}, SEES),
    ("read_as_of", {"partitions": [ORDER]}, SEES),
    ("read_histories", {"partitions": [ORDER]}, SEES),
    ("read_hot", {"segments": [OWN]}, READS),
    ("read_partitions", {"partitions": [ORDER]}, SEES),
    ("release_lease", {"lease_id": JOBS_LEASE}, ANY_WORK),
    ("release_lease", {"lease_id": AGENTS_LEASE}, [*ANY_WORK, *OF_AGENT]),
    ("renew_lease", {"lease_id": JOBS_LEASE}, ANY_WORK),
    (
        "swap_extents",
        {"partitions": [{"partition": ORDER}], "segments": [{"segment": OWN}]},
        [(ALTER, TOPIC, "orders")],
    ),
    (
        "txn_offset_commit",
        {"transactional_id": "tx", "group_id": "g", "offsets": [{"partition": ORDER}]},
        [*OF_TXN, (READ, GROUP, "g"), *SEES],
    ),
    ("unpin_reads", {}, READS),
]


class Bench:
    """A job's rights in a cluster with two topics and with leases for an agent and a job."""

    def __init__(self, grants: Sequence[Grant] = (), super_user: str = "admin") -> None:
        self.state = State()
        for topic_id, name in ((ORDERS, "orders"), (SECRET, "secret")):
            topic = TopicState(topic_id, name, {}, {})
            self.state.topics[topic_id] = self.state.topics_by_name[name] = topic
        self.state.leases[AGENTS_LEASE] = Lease(AGENTS_LEASE, 1)
        self.state.leases[JOBS_LEASE] = Lease(JOBS_LEASE, NO_NODE)
        authorizer = Authorizer(self.state.security, [Principal("User", super_user)])
        self.rights = JobRights(self.state, authorizer, Audit(authorizer, lambda: 0.0), JOB)
        self.change(added=grants)

    def change(
        self, *, added: Sequence[Grant] = (), removed: Sequence[Grant] = ()
    ) -> SecurityChanges:
        changes = SecurityChanges(
            added_acls=[_acl(*each).message() for each in added],
            removed_acls=[_acl(*each).message() for each in removed],
        )
        self.state.security.apply(changes)
        return changes

    def topics(self, **delta: object) -> tuple[list[str], list[bytes]]:
        """Return the names of the topics that a delta shows, and the ids of those that it removes."""
        shown = self.rights.shown(ClusterDelta(**delta))  # type: ignore[arg-type]
        assert not shown.HasField("security")
        return [each.name for each in shown.topics], list(shown.deleted_topic_ids)


def _acl(operation: Operation, resource_type: ResourceType, name: str) -> AclEntry:
    return AclEntry(
        resource_type,
        name,
        PatternType.LITERAL,
        f"User:{JOB.subject}",
        "*",
        operation,
        Permission.ALLOW,
    )


def test_there_is_a_case_of_every_verb_of_jobs() -> None:
    of_jobs = {verb for verb, row in VERBS.items() if row.needs is not None}
    assert {verb for verb, _, _ in CASES} == of_jobs


@pytest.mark.parametrize(("verb", "fields", "needs"), CASES, ids=[verb for verb, _, _ in CASES])
def test_a_verb_needs_all_that_the_table_says(
    verb: str, fields: Any, needs: Sequence[Grant]
) -> None:
    command = Command(**{verb: fields})
    assert Bench(needs).rights.failure(command) is None
    assert Bench(super_user=JOB.subject).rights.failure(command) is None
    for missing in needs:
        failure = Bench([each for each in needs if each != missing]).rights.failure(command)
        assert failure is not None, f"without {missing}"
        assert failure.error_code == DENIED[missing[1]]
        assert failure.message.startswith(f"User:{JOB.subject} may not ")


#: Verbs that need an operation on some topic, whichever.
ANYWHERE: Final = frozenset(
    {
        "describe_leases",
        "open_lease",
        "pin_reads",
        "read_hot",
        "release_lease",
        "renew_lease",
        "unpin_reads",
    }
)


def test_what_is_allowed_elsewhere_does_not_count() -> None:
    for verb, fields, needs in CASES:
        command = Command(**{verb: fields})
        named = [each for each in needs if each[1] is not CLUSTER]
        if not named or verb in ANYWHERE or command == Command(init_producer_id=InitProducerId()):
            continue
        elsewhere = Bench([(operation, resource, "other") for operation, resource, _ in needs])
        assert elsewhere.rights.failure(command) is not None, verb


def test_another_verb_is_refused() -> None:
    failure = Bench(super_user=JOB.subject).rights.failure(Command())
    assert failure is not None
    assert failure.message.startswith("jobs may not")


def test_a_batch_of_a_transaction_names_its_transactional_id() -> None:
    """Otherwise, a job that may write to the topic could write into any transaction."""

    def committed(*flags: int) -> Command:
        rows = b"".join(COMMITTED_BATCH.pack(0, 100, 1, 0, 7, 0, 0, each) for each in flags)
        pieces = [SegmentSlice(key_of(ORDER)), SegmentSlice(key_of(ORDER), rows)]
        commit = commit_of(OWN, 0, pieces, ["tx"])
        return Command(commit_segment=commit)

    plain, named, nameless = 0, TRANSACTIONAL | 1 << 4, TRANSACTIONAL | ADDS_PARTITION
    for bench in (
        Bench([*OF_TXN, (WRITE, TOPIC, "orders")]),
        Bench(super_user=JOB.subject),
    ):
        assert bench.rights.failure(committed(plain, named)) is None
        failure = bench.rights.failure(committed(plain, named, nameless))
        assert failure is not None
        assert failure.error_code == DENIED[TXN]
        assert "commit it with its transactional id" in failure.message


def test_a_denial_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lacuna.authorizer")
    swap = Command(swap_extents=SwapExtents(partitions=[SwapPartition(partition=ORDER)]))
    failure = Bench(SEES).rights.failure(swap)
    assert failure is not None
    assert failure.message == (
        "User:CN=job,O=tests may not ALTER topic orders: an operator can allow it with `lacuna acls add "
        "--allow-principal User:CN=job,O=tests --operation Alter --topic orders`"
    )
    assert caplog.messages == [
        (
            "Principal = User:CN=job,O=tests is Denied operation = ALTER from host = 10.0.0.7 on resource = "
            "Topic:LITERAL:orders for request = SwapExtents based on rule DefaultDeny"
        )
    ]


def test_the_name_of_a_topic_is_not_told_to_who_may_not_describe_it() -> None:
    secret = TopicPartition(topic_id=SECRET)
    failure = Bench(READS).rights.failure(Command(read_as_of=ReadAsOf(partitions=[secret])))
    assert failure is not None
    assert "secret" not in failure.message
    assert "secret" not in Bench(READS).rights.refusal(SECRET)
    gone = TopicPartition(topic_id=b"g" * 16)
    assert Bench().rights.failure(Command(read_as_of=ReadAsOf(partitions=[gone]))) is None


def test_subscriptions_need_read() -> None:
    bench = Bench(READS)
    assert bench.rights.refusal(ORDERS) == ""
    assert "may not READ" in bench.rights.refusal(SECRET)
    assert "may not READ" in bench.rights.refusal(INTERNAL_TOPICS[0].topic_id)
    assert bench.rights.refusal(b"g" * 16) == ""


def test_the_cluster_is_shown_without_hidden_topics() -> None:
    bench = Bench(SEES)
    topics = [each.message() for each in bench.state.topics.values()]
    assert bench.topics(is_snapshot=True, topics=topics) == (["orders"], [])
    assert bench.topics(topics=topics[1:]) == ([], [])
    others = _acl(DESCRIBE, TOPIC, "secret")._replace(principal="User:other").message()
    unrelated = SecurityChanges(added_acls=[others])
    bench.state.security.apply(unrelated)
    assert bench.topics(security=unrelated) == ([], [])
    secret: Grant = (DESCRIBE, TOPIC, "secret")
    assert bench.topics(security=bench.change(added=[secret])) == (["secret"], [])
    assert bench.topics(security=bench.change(removed=[secret])) == ([], [SECRET])
    assert bench.topics(deleted_topic_ids=[ORDERS, SECRET]) == ([], [ORDERS])


def test_lists_leave_out_what_may_not_be_described() -> None:
    grants: Sequence[Grant] = [
        *SEES,
        (DESCRIBE, GROUP, "g"),
        (DESCRIBE_CONFIGS, GROUP, "g"),
        (DESCRIBE, TXN, "tx"),
    ]
    answer = Bench(grants).rights.answer
    groups = GroupsListed(groups=[ListedGroup(group_id=each) for each in ("g", "h")])
    told = answer(Reply(groups_listed=groups)).groups_listed
    assert [each.group_id for each in told.groups] == ["g"]
    of_cluster = Bench(ON_CLUSTER).rights.answer(Reply(groups_listed=groups))
    assert of_cluster.groups_listed == groups

    configs = GroupConfigsDescribed(groups=[GroupConfigs(group_id=each) for each in ("g", "h")])
    shown = answer(Reply(group_configs_described=configs)).group_configs_described
    assert [each.group_id for each in shown.groups] == ["g"]

    listing = TransactionsListed(
        transactions=[TransactionListing(transactional_id=each) for each in ("tx", "ty")]
    )
    listed = answer(Reply(transactions_listed=listing)).transactions_listed
    assert [each.transactional_id for each in listed.transactions] == ["tx"]

    both = [ORDER, TopicPartition(topic_id=SECRET)]
    described = TransactionsDescribed(transactions=[TransactionDescription(partitions=both)])
    (transaction,) = answer(
        Reply(transactions_described=described)
    ).transactions_described.transactions
    assert list(transaction.partitions) == [ORDER]

    offsets = [CommittedOffset(partition=each) for each in both]
    fetched = OffsetsFetched(groups=[FetchedGroup(offsets=offsets)])
    (group,) = answer(Reply(offsets_fetched=fetched)).offsets_fetched.groups
    assert [each.partition for each in group.offsets] == [ORDER]

    wishes = DescribedConsumerMember(topic_names=["orders", "secret"])
    hidden = TopicIdPartitions(topic_id=SECRET, partitions=[0])
    for member, is_shown in (
        (wishes, True),
        (DescribedConsumerMember(assignment=[hidden]), False),
        (DescribedConsumerMember(target=[hidden]), False),
    ):
        found = DescribedConsumerGroup(members=[wishes, member])
        reply = Reply(consumer_groups_described=ConsumerGroupsDescribed(groups=[found]))
        (told_of,) = answer(reply).consumer_groups_described.groups
        assert list(told_of.members) == ([wishes, member] if is_shown else [])
        assert told_of.error_code == (0 if is_shown else DENIED[TOPIC])
        assert Bench(super_user=JOB.subject).rights.answer(reply) == reply
