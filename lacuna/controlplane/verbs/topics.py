"""CreateTopics, DeleteTopics, CreatePartitions and AlterTopicConfigs."""

import re
from collections import Counter
from typing import Final

from lacuna.controlplane.shared.config_values import shorten
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.history import next_second_ms
from lacuna.controlplane.shared.internal_topics import (
    INTERNAL_BY_NAME,
    KAFKAS_OWN,
    READ_ONLY,
    internal_by_id,
)
from lacuna.controlplane.shared.topic_configs import (
    MIRROR_SOURCE,
    InvalidConfig,
    alter,
    check_all,
    check_together,
)
from lacuna.controlplane.state.owners import NOBODY
from lacuna.controlplane.state.partition import Partition, deleted_delta, history_of
from lacuna.controlplane.state.segments import References
from lacuna.controlplane.state.settings import (
    DEFAULT_PARTITIONS,
    MAX_NEW_PARTITIONS,
    MAX_PARTITIONS,
    MAX_TOPIC_NAME,
    MOST_PARTITIONS,
)
from lacuna.controlplane.state.state import State, TopicState, plain
from lacuna.controlplane.v1.cluster_pb2 import (
    AlterTopicConfigs,
    CreatePartitions,
    CreatePartitionsTopic,
    CreateTopic,
    CreateTopics,
    DeleteTopics,
    Outcome,
    PartitionCounts,
    Topic,
    TopicResult,
    TopicResults,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.journal_pb2 import (
    ConfigsChanged,
    JournalRecord,
    TopicsAdded,
    TopicsRemoved,
)
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


# CreateTopics


def create_topics(turn: Turn, command: CreateTopics) -> Reply:
    """Create topics. Each succeeds or fails independently; if several have the same name, all of these fail.

    A command that would create more than MAX_NEW_PARTITIONS partitions creates none.
    """
    times = Counter(topic.name for topic in command.topics)
    total = sum(_count(wanted) for wanted in command.topics if _count(wanted) > 0)
    created: dict[str, Topic] = {}
    results = []
    for wanted in command.topics:
        try:
            if times[wanted.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = _new_topic(turn, wanted, created)
            _check_total(turn.state, total)
            _check_share(turn, turn.principal, total)
        except Refused as refused:
            results.append(_refusal(wanted.name, refused))
            continue
        created[plain(topic.name)] = topic
        count = topic.partition_count
        results.append(TopicResult(name=topic.name, topic_id=topic.topic_id, partition_count=count))
    if created and not command.validate_only:
        added = TopicsAdded(topics=created.values(), principal=turn.principal)
        turn.journal(JournalRecord(topics_added=added))
    return Reply(topics_created=TopicResults(topics=results))


def _count(wanted: CreateTopic) -> int:
    return DEFAULT_PARTITIONS if wanted.partition_count == -1 else wanted.partition_count


def _check_total(state: State, new_partitions: int) -> None:
    if new_partitions > MAX_NEW_PARTITIONS:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"One request can create at most {MAX_NEW_PARTITIONS} partitions, not "
            f"{new_partitions}: send several requests.",
        )
    if new_partitions and len(state.partitions) + new_partitions > MOST_PARTITIONS:
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"A cluster can have at most {MOST_PARTITIONS} partitions, and this one has "
            f"{len(state.partitions)}: delete topics first.",
        )


def _check_share(turn: Turn, payer: str, new_partitions: int) -> None:
    """Raise Refused if the new partitions would exceed the share of the principal that is charged for them."""
    share = turn.groups.settings.share_of(MOST_PARTITIONS)
    if not turn.state.topic_owners.has_share(payer, new_partitions, share):
        raise Refused(
            ErrorCode.POLICY_VIOLATION,
            f"The topics of one principal may have at most {share} partitions "
            "(principal.max.percent): delete some topics.",
        )


def _refusal(name: str, refused: Refused) -> TopicResult:
    return TopicResult(name=name, error_code=refused.code, error_message=refused.message)


def _new_topic(turn: Turn, wanted: CreateTopic, created: dict[str, Topic]) -> Topic:
    state = turn.state
    _check_name(wanted.name)
    if wanted.name in state.topics_by_name:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wanted.name}' already exists.")
    other = state.topics_by_plain_name.get(plain(wanted.name)) or created.get(plain(wanted.name))
    if other is not None:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{wanted.name}' collides with existing topic: {other.name}",
        )
    count = _count(wanted)
    if count < 1:
        message = "Number of partitions was set to an invalid non-positive value."
        raise Refused(ErrorCode.INVALID_PARTITIONS, message)
    if count > MAX_PARTITIONS:
        message = f"Number of partitions was {count}; a topic has at most {MAX_PARTITIONS}."
        raise Refused(ErrorCode.INVALID_PARTITIONS, message)
    try:
        configs = check_all(wanted.configs)
    except InvalidConfig as invalid:
        raise Refused(ErrorCode.INVALID_CONFIG, str(invalid)) from invalid
    return Topic(
        topic_id=turn.context.new_id(),
        name=wanted.name,
        partition_count=count,
        configs=configs,
    )


def _check_name(name: str) -> None:
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME:
        problem = f"the length of '{shorten(name)}' is longer than the max allowed length {MAX_TOPIC_NAME}"
    elif not _LEGAL_NAME.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    elif name in INTERNAL_BY_NAME:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    elif name in KAFKAS_OWN:
        problem = f"'{name}' is an internal topic of Kafka, which Lacuna does not have"
    else:
        return
    raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


# DeleteTopics


def delete_topics(turn: Turn, command: DeleteTopics) -> Reply:
    """Delete topics by id. Each succeeds or fails independently; a repeated id fails the second time.

    Topics beyond a total of MAX_NEW_PARTITIONS partitions are skipped, and must be requested again.
    """
    results: list[TopicResult] = []
    left = MAX_NEW_PARTITIONS
    removed: dict[bytes, None] = {}
    for topic_id in command.topic_ids:
        topic = turn.state.topics.get(topic_id)
        if topic is None or topic_id in removed:
            is_internal = internal_by_id(topic_id) is not None
            code = ErrorCode.POLICY_VIOLATION if is_internal else ErrorCode.UNKNOWN_TOPIC_ID
            results.append(TopicResult(topic_id=topic_id, error_code=code))
            continue
        count = len(topic.partitions)
        if removed and count > left:
            break
        removed[topic_id] = None
        left -= count
        results.append(TopicResult(name=topic.name, topic_id=topic_id, partition_count=count))
    if removed:
        turn.journal(JournalRecord(topics_removed=TopicsRemoved(topic_ids=removed)))
    return Reply(topics_deleted=TopicResults(topics=results))


# CreatePartitions


def create_partitions(turn: Turn, command: CreatePartitions) -> Reply:
    """Add partitions to topics; counts never decrease. Each topic succeeds or fails independently."""
    times = Counter(topic.name for topic in command.topics)
    total = sum(_increase(turn.state, wanted) for wanted in command.topics)
    charged: Counter[str] = Counter()
    record = PartitionCounts()
    results = []
    for wanted in command.topics:
        try:
            if times[wanted.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            topic = _check_increase(turn.state, wanted)
            _check_total(turn.state, total)
            payer = turn.state.topic_owners.of.get(topic.topic_id, NOBODY)
            more = _increase(turn.state, wanted)
            _check_share(turn, payer, charged[payer] + more)
        except Refused as refused:
            results.append(_refusal(wanted.name, refused))
            continue
        charged[payer] += more
        record.topic_ids.append(topic.topic_id)
        record.partition_counts.append(wanted.partition_count)
        count = wanted.partition_count
        results.append(TopicResult(name=topic.name, topic_id=topic.topic_id, partition_count=count))
    if record.topic_ids and not command.validate_only:
        turn.journal(JournalRecord(partitions_added=record))
    return Reply(partitions_created=TopicResults(topics=results))


def _increase(state: State, wanted: CreatePartitionsTopic) -> int:
    topic = state.topics_by_name.get(wanted.name)
    return 0 if topic is None else max(0, wanted.partition_count - len(topic.partitions))


def _check_increase(state: State, wanted: CreatePartitionsTopic) -> TopicState:
    topic = _find(state, wanted.name)
    now = len(topic.partitions)
    if wanted.partition_count == now:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if wanted.partition_count < now:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {now} partition(s); "
            f"{wanted.partition_count} would not be an increase.",
        )
    if wanted.partition_count > MAX_PARTITIONS:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS, f"A topic has at most {MAX_PARTITIONS} partitions."
        )
    return topic


def _find(state: State, name: str) -> TopicState:
    topic = state.topics_by_name.get(name)
    if topic is None and name in INTERNAL_BY_NAME:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"The topic cannot be changed: {READ_ONLY}.")
    if topic is None:
        message = f"The topic '{shorten(name)}' does not exist."
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return topic


# AlterTopicConfigs


def alter_topic_configs(turn: Turn, command: AlterTopicConfigs) -> Reply:
    """Apply all changes to a topic, or none. With `replaces_all`, all configs not named return to their defaults."""
    try:
        topic = _find(turn.state, command.name)
        if len({change.name for change in command.changes}) < len(command.changes):
            raise Refused(ErrorCode.INVALID_REQUEST, "A config is named twice.")
        configs = _kept(topic) if command.replaces_all else topic.own
        for change in command.changes:
            configs = alter(configs, change.name, change.operation, change.value)
        check_together(configs)
    except Refused as refused:
        answer = Outcome(error_code=refused.code, error_message=refused.message)
        return Reply(topic_configs_altered=answer)
    except InvalidConfig as invalid:
        code = ErrorCode.INVALID_CONFIG
        answer = Outcome(error_code=code, error_message=str(invalid))
        return Reply(topic_configs_altered=answer)
    if configs != topic.own and not command.validate_only:
        record = ConfigsChanged(topic_id=topic.topic_id, configs=configs)
        turn.journal(JournalRecord(configs_changed=record))
    return Reply(topic_configs_altered=Outcome())


def _kept(topic: TopicState) -> dict[str, str]:
    """Return the configs that survive a full replacement: a tool that does not know of mirrors must not promote one."""
    return {MIRROR_SOURCE: topic.mirror_source} if topic.mirror_source else {}


# Replays


def replay_topics_added(state: State, record: TopicsAdded, now_ms: int) -> None:
    delta = state.cluster_changed()
    for added in record.topics:
        topic = TopicState(added.topic_id, added.name, added.configs, state.topic_defaults)
        state.topics[topic.topic_id] = topic
        state.topic_owners.own(topic.topic_id, record.principal)
        state.topics_by_name[topic.name] = topic
        state.topics_by_plain_name[plain(topic.name)] = topic
        _add_partitions(state, topic, added.partition_count, now_ms)
        delta.topics.append(topic.message())


def _add_partitions(state: State, topic: TopicState, count: int, now_ms: int) -> None:
    is_new = not topic.partitions
    state.topic_owners.charge(topic.topic_id, count - len(topic.partitions))
    for index in range(len(topic.partitions), count):
        key = (topic.topic_id, index)
        partition = Partition(key, history_of(key, next_second_ms(now_ms)))
        # A partition that is created with its topic has no history before that. A partition added to an existing topic
        # counts as empty at all earlier times.
        partition.history.begin_empty(now_ms // 1000 if is_new else 0)
        topic.partitions.append(partition)
        state.partitions[partition.key] = partition
        if partition.key in state.watched:
            state.changes.append(partition.snapshot_delta())


def replay_topics_removed(state: State, record: TopicsRemoved, now_ms: int) -> None:
    """Remove topics and everything about them (S6).

    Later ticks release the references of many extents. Open transactions still list the removed partitions, but ignore
    them when they end.
    """
    delta = state.cluster_changed()
    gone: list[References] = []
    names: dict[bytes, str] = {}
    for topic_id in record.topic_ids:
        topic = state.topics.pop(topic_id)
        state.topic_owners.charge(topic_id, -len(topic.partitions))
        names[topic_id] = topic.name
        del state.topics_by_name[topic.name]
        del state.topics_by_plain_name[plain(topic.name)]
        gone += [_remove_partition(state, partition) for partition in topic.partitions]
        state.rewriting.topics.pop(topic_id, None)
        delta.deleted_topic_ids.append(topic_id)
    state.groups.forget_topics(names, now_ms)
    state.segments.release(gone, now_ms)


def _remove_partition(state: State, partition: Partition) -> References:
    del state.partitions[partition.key]
    state.windows.forget(partition)
    if partition.key in state.watched:
        state.changes.append(deleted_delta(partition.key))
    return References(partition.extents.lease_ids, partition.extents.sequences)


def replay_partitions_added(state: State, record: PartitionCounts, now_ms: int) -> None:
    delta = state.cluster_changed()
    for topic_id, count in zip(record.topic_ids, record.partition_counts, strict=True):
        topic = state.topics[topic_id]
        _add_partitions(state, topic, count, now_ms)
        delta.topics.append(topic.message())


def replay_configs_changed(state: State, record: ConfigsChanged, _now_ms: int) -> None:
    topic = state.topics[record.topic_id]
    topic.set_configs(record.configs, state.topic_defaults)
    state.cluster_changed().topics.append(topic.message())


VERBS: Final = (
    Verb(create_topics),
    Verb(delete_topics),
    Verb(create_partitions),
    Verb(alter_topic_configs),
)
REPLAYS: Final = (
    replay_topics_added,
    replay_topics_removed,
    replay_partitions_added,
    replay_configs_changed,
)
