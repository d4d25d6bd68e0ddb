"""What follows from a change: a new epoch, a new target, and the step that is journalled."""

from collections import Counter
from collections.abc import Iterable, Mapping

from controlplane.groups.consumer.assignors import Assign, Subscriber, assign_range
from controlplane.groups.consumer.group import Draft
from controlplane.groups.consumer.live import LiveConsumerGroup
from controlplane.groups.consumer.member import Member
from controlplane.groups.consumer.subscriptions import TopicCounts
from controlplane.groups.consumer.uniform import assign_uniform
from controlplane.groups.turn import Turn
from controlplane.v1.group_records_pb2 import GroupRecord

#: By their names in Kafka; the first is the default.
ASSIGNORS: Mapping[str, Assign] = {"uniform": assign_uniform, "range": assign_range}


def preferred_assignor(members: dict[str, Member]) -> str:
    """What most members ask for; of equals the default."""
    votes = Counter(
        each.subscription.server_assignor
        for each in members.values()
        if each.subscription.server_assignor
    )
    return max(ASSIGNORS, key=votes.__getitem__)


def take_account(turn: Turn, draft: Draft, *, has_changed: bool) -> None:
    """Bump the group's epoch if its members or the topics that they want have changed.

    Topics appear, grow and go: a look at them costs little while nothing has changed in the cluster.
    """
    live = turn.groups.live_consumers.get(draft.group_id)
    version = turn.topics.version
    if not has_changed and live is not None and live.topics_version == version:
        return
    topics: dict[bytes, int] = {}
    for each in _distinct(_resolve(turn, member) for member in draft.members.values()):
        topics.update(each)
    if has_changed or topics != draft.topics:
        draft.group_epoch += 1
    draft.topics = topics
    draft.topics_version = version


def assign_if_stale(turn: Turn, draft: Draft) -> None:
    """A new target for every member, once the group's epoch is ahead of that of the last target."""
    if draft.group_epoch <= draft.assignment_epoch:
        return
    subscribers = [
        Subscriber(
            member_id=member_id,
            group_instance_id=member.subscription.group_instance_id,
            topics=_resolve(turn, member),
            target=member.target,
        )
        for member_id, member in sorted(draft.members.items())
    ]
    every: dict[bytes, int] = {}
    for topics in _distinct(each.topics for each in subscribers):
        every.update(topics)
    ordered = dict(sorted(every.items(), key=lambda each: turn.topics.name_of(each[0]) or ""))
    assign = ASSIGNORS[preferred_assignor(draft.members)]
    draft.retarget(assign(subscribers, ordered))


def _resolve(turn: Turn, member: Member) -> TopicCounts:
    wanted = member.subscription
    return turn.groups.resolver.resolve(turn.topics, wanted.topic_names, wanted.topic_regex)


def _distinct(resolved: Iterable[TopicCounts]) -> Iterable[TopicCounts]:
    """Each value once; the resolver gives equal subscriptions the same one."""
    return {id(each): each for each in resolved}.values()


def keep(turn: Turn, draft: Draft) -> LiveConsumerGroup:
    """Journal what has changed; gives the group's deadlines, those of members that left cleared."""
    step = draft.to_step()
    if step is not None:
        turn.records.append(GroupRecord(consumer_group_step=step))
    if draft.base is None:
        live = turn.groups.live_consumers.setdefault(draft.group_id, LiveConsumerGroup())
    else:
        # After a restart this may be the first that is heard of the group: the others' sessions begin too.
        live = turn.groups.open_consumer(draft.base, turn.now_ms)
    if draft.topics_version is not None:
        live.topics_version = draft.topics_version
    for member_id, before in draft.changed.items():
        member = draft.members.get(member_id)
        if member is None:
            live.forget(member_id)
        else:
            live.follow(before, member, turn.now_ms)
    return live
