"""Members of streams groups (KIP-1071): StreamsGroupHeartbeat, and the end of sessions.

As in consumer groups, a heartbeat moves its member by at most one step: it stores what the member declares, configures
the topology, computes new targets if the group's epoch has grown, and moves the member towards its target. A heartbeat
that changes nothing is not journalled. A member that may have missed its last answer is sent its tasks again
(adr/0016).
"""

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from lacuna.controlplane.shared.config_values import items_of
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.group_configs import (
    STREAMS_ACCEPTABLE_LAG,
    STREAMS_ASSIGNMENT_INTERVAL,
    STREAMS_HEARTBEAT_INTERVAL,
    STREAMS_INITIAL_DELAY,
    STREAMS_RACK_TAGS,
    STREAMS_SESSION_TIMEOUT,
    STREAMS_STANDBYS,
    STREAMS_TASK_OFFSET_INTERVAL,
)
from lacuna.controlplane.state.groups.consumer.live import Deadline
from lacuna.controlplane.state.groups.consumer.states import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
)
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.state.groups.streams import (
    NO_TASKS,
    NO_TOPOLOGY,
    Current,
    LiveStreamsGroup,
    Member,
    Metadata,
    StreamsDraft,
    StreamsGroup,
    Task,
    Tasks,
    by_subtopology,
    required_topics,
)
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    EndpointPartitions,
    StreamsEndpoint,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatAnswered,
    StreamsGroupStep,
    StreamsStatus,
    TopicNamePartitions,
)
from lacuna.controlplane.v1.control_pb2 import Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupRecord
from lacuna.controlplane.verbs.groups.consumer import finding
from lacuna.controlplane.verbs.groups.dropping import of_one_group
from lacuna.controlplane.verbs.groups.streams_tasks import Runner, assign_sticky, reconcile
from lacuna.controlplane.verbs.groups.streams_topology import (
    ASSIGNMENT_DELAYED,
    MISSING_CLIENT_TAGS,
    MOST_TASKS,
    SHUTDOWN_APPLICATION,
    STALE_TOPOLOGY,
    check_topology,
    configure,
)
from lacuna.controlplane.verbs.refusals import Refused
from lacuna.controlplane.verbs.turn import Turn
from lacuna.controlplane.verbs.verb import Verb

_SAME: Final = -1  # the rebalance timeout is unchanged
#: The maximum number of changelog offsets from all members of a group together: enough for several copies of each task.
MOST_OFFSETS: Final = 10 * MOST_TASKS
#: How long a member has to describe the topology when asked, before another member is asked.
_ASK_AGAIN_MS: Final = 60_000


@of_one_group
def streams_group_heartbeat(turn: Turn, command: StreamsGroupHeartbeat) -> Reply:
    try:
        _check(command)
        if command.member_epoch in (LEAVING_EPOCH, LEAVING_STATIC_EPOCH):
            answered = _leave(turn, command)
        else:
            answered = _Beat(turn, command).answered()
    except Refused as refused:
        answered = StreamsGroupHeartbeatAnswered(
            error_code=refused.code, error_message=refused.message
        )
    return Reply(streams_group_heartbeat_answered=answered)


def _check(command: StreamsGroupHeartbeat) -> None:
    """Raise Refused for requests that are invalid regardless of the group's state."""
    epoch = command.member_epoch
    is_joining = epoch == JOINING_EPOCH
    has_tasks = is_joining and command.has_owned and bool(len(Tasks.from_record(command.owned)))
    problems = (
        (not command.member_id, "MemberId can't be empty."),
        (not command.group_id, "GroupId can't be empty."),
        (command.HasField("rack_id") and not command.rack_id, "RackId can't be empty."),
        (
            is_joining and command.rebalance_timeout_ms == _SAME,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (has_tasks, "Tasks must be empty when (re-)joining."),
        (
            is_joining and not command.HasField("topology"),
            "Topology must be non-null when (re-)joining.",
        ),
        (
            epoch == LEAVING_STATIC_EPOCH and not command.group_instance_id,
            "InstanceId can't be null.",
        ),
        (
            epoch < LEAVING_STATIC_EPOCH,
            f"MemberEpoch is {epoch}, but must be greater than or equal to {LEAVING_STATIC_EPOCH}.",
        ),
        (
            not is_joining and command.HasField("topology"),
            "Topology can only be provided when (re-)joining.",
        ),
    )
    for is_wrong, message in problems:
        if is_wrong:
            raise Refused(ErrorCode.INVALID_REQUEST, message)
    if is_joining:
        check_topology(command.topology)


def find_streams_group(turn: Turn, group_id: str) -> StreamsGroup:
    """Return a streams group. Raises Refused if there is none."""
    group = turn.groups.streams.get(group_id)
    if group is None:
        raise finding.no_group(turn, group_id, "streams")
    return group


def open_streams(turn: Turn, draft: StreamsDraft) -> LiveStreamsGroup:
    """Return the group's deadlines, which start in full if the group is new or was restored from the journal."""
    groups, group_id = turn.groups, draft.group_id
    live = groups.live_streams.get(group_id)
    if live is None:
        live = LiveStreamsGroup(moved_ms=groups.live.moved_ms)
        if draft.base is not None:
            timeout_ms = groups.number(group_id, STREAMS_SESSION_TIMEOUT)
            live.begin(draft.base, timeout_ms, turn.now_ms)
            groups.live_streams[group_id] = live
    live.settle(groups.live.moved_ms)
    return live


def keep(turn: Turn, draft: StreamsDraft, live: LiveStreamsGroup) -> None:
    """Journal the draft's changes, and update the deadlines to match its members."""
    step = draft.to_step()
    if step is None:
        return
    turn.journal_group(GroupRecord(streams_group_step=step))
    for member_id in step.removed_member_ids:
        live.forget(member_id)
    for record in step.members:
        before = draft.group.members.get(record.member_id)
        live.follow_tasks(before, draft.members[record.member_id], turn.now_ms)


class _Beat:
    """The heartbeat of a member that joins or stays."""

    def __init__(self, turn: Turn, command: StreamsGroupHeartbeat) -> None:
        self.turn = turn
        self.command = command
        self.is_joining = command.member_epoch == JOINING_EPOCH
        self.draft = self._draft()
        known = turn.groups.live_streams.get(command.group_id)
        session = turn.context.session
        self.has_heard = known is not None and known.has_heard(command.member_id, session)
        self.owned = Tasks.from_record(command.owned) if command.has_owned else None
        self.statuses: list[StreamsStatus] = []
        self.topics_version: int | None = None
        self.before = self._find()

    def answered(self) -> StreamsGroupHeartbeatAnswered:
        turn, draft, command = self.turn, self.draft, self.command
        is_empty = not draft.group.members
        member = _updated(self.before, command)
        draft.put(member)
        has_changed = self._take_topology() or self._is_news(member)
        self._check_room()
        live = open_streams(turn, draft)
        has_changed = self._configure(live) or has_changed
        self._take_offsets(live)
        self._grow(live, has_changed=self._take_configs() or has_changed, is_empty=is_empty)
        if command.member_epoch in (self.before.current.member_epoch, JOINING_EPOCH):
            # Otherwise, it must first receive its last step, or it might be two epochs behind.
            assigned = draft.step.assignment_epoch
            draft.put(reconcile(draft.group, draft.members[member.member_id], assigned, self.owned))
        if command.shuts_down and not draft.step.shut_down_by:
            draft.step.shut_down_by = member.member_id
        return self._end(live)

    def _draft(self) -> StreamsDraft:
        turn, group_id = self.turn, self.command.group_id
        group = turn.groups.streams.get(group_id)
        if group is None and self.is_joining:
            self._make_room_for_new(group_id)
            return StreamsDraft(group_id, None)
        return StreamsDraft(group_id, group or find_streams_group(turn, group_id))

    def _make_room_for_new(self, group_id: str) -> None:
        """Raise Refused if a group of another kind has this id, unless it is a classic group without members."""
        turn = self.turn
        if not turn.groups.exists(group_id):
            return
        classic = turn.groups.find(group_id, turn.now_ms)
        if classic is None or classic.state is not GroupState.EMPTY:
            find_streams_group(turn, group_id)

    def _find(self) -> Member:
        """Return the member as it was before this heartbeat, or a new one if it joins. Raises Refused."""
        draft, command = self.draft, self.command
        instance_id, member_id = command.group_instance_id, command.member_id
        most = self.turn.groups.settings.group_max_size
        is_known = member_id in draft.members or instance_id in draft.static_members
        if len(draft.members) >= most and not is_known:
            message = f"The streams group has reached its maximum capacity of {most} members."
            raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        if instance_id:
            member = self._find_static(instance_id)
        elif self.is_joining:
            member = draft.members.get(member_id) or Member(member_id=member_id)
        else:
            member = finding.find_dynamic(draft, member_id)
        self._check_epoch(member)
        return member

    def _find_static(self, instance_id: str) -> Member:
        draft, member_id = self.draft, self.command.member_id
        existing_id = draft.static_members.get(instance_id)
        if not self.is_joining:
            return finding.find_static(draft, member_id, instance_id)
        if existing_id is None:
            return draft.members.get(member_id) or Member(member_id=member_id)
        existing = draft.members[existing_id]
        return finding.take_over(draft, existing, member_id, instance_id, has_heard=self.has_heard)

    def _check_epoch(self, member: Member) -> None:
        """Raise Refused unless the epoch is current, or is the previous one and a response may have been missed."""
        epoch, current = self.command.member_epoch, member.current
        if epoch in (JOINING_EPOCH, current.member_epoch):
            return
        is_retry = (
            epoch == current.previous_member_epoch
            and epoch < current.member_epoch
            and (self._may_own(current) if self.owned is not None else not self.has_heard)
        )
        if not is_retry:
            raise finding.fenced("streams", epoch, current.member_epoch)

    def _may_own(self, current: Current) -> bool:
        """Whether the member may own the tasks that it declares, although it does not know its current epoch.

        If it may have missed the last answer, it may still have tasks that it should give up, or tasks in earlier
        roles.
        """
        owned = self.owned or NO_TASKS
        if self.has_heard:
            return owned.is_within(current.assigned)
        known = current.assigned.joined(current.revoking)
        return frozenset().union(*owned.roles) <= frozenset().union(*known.roles)

    def _is_news(self, member: Member) -> bool:
        """Whether the member's new declaration requires a new assignment. A static member's new address does not."""
        before, now = self.before.metadata, member.metadata
        if not now.group_instance_id:
            return before != now
        told = before.topology_epoch, before.rack_id, before.client_tags, before.process_id
        return told != (now.topology_epoch, now.rack_id, now.client_tags, now.process_id)

    def _take_topology(self) -> bool:
        """Use the member's topology if the group has none yet, and return whether it was used."""
        draft, told = self.draft, self.command.topology
        known = draft.topology
        is_new = known is None and self.command.HasField("topology")
        if is_new:
            draft.topology = told
        elif known is not None and self.is_joining and told.epoch >= known.epoch and told != known:
            raise Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        topology_epoch = draft.members[self.command.member_id].metadata.topology_epoch
        if known is not None and topology_epoch < known.epoch:
            self._add_status(
                STALE_TOPOLOGY,
                f"The member's topology epoch {topology_epoch} is behind the group's topology epoch {known.epoch}.",
            )
        return is_new

    def _check_room(self) -> None:
        draft, groups = self.draft, self.turn.groups
        growth = draft.growth
        largest = groups.settings.group_metadata_max_bytes
        is_full = growth > 0 and draft.group.size + growth > largest
        if is_full or not groups.has_room(draft.group_id, growth, self.turn.principal):
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"There is no room left: a streams group may store {largest} bytes, all groups together may store"
                f" {groups.settings.groups_max_bytes} bytes (groups.max.bytes), and one principal's groups may store"
                f" {groups.settings.principal_max_percent}% of that (principal.max.percent). Delete some groups.",
            )

    def _configure(self, live: LiveStreamsGroup) -> bool:
        """Configure the topology if its topics may have changed. Return whether a new assignment is needed."""
        turn, draft = self.turn, self.draft
        topology, version = draft.topology, turn.topics.version
        if topology is None:
            raise Refused(ErrorCode.INVALID_REQUEST, "The group has no topology.")
        is_known = live.configured is not None and draft.topology is draft.group.topology
        if not is_known or live.topics_version != version:
            found = (turn.topics.find(name) for name in required_topics(topology))
            topics = dict(each for each in found if each is not None)
            are_other = topics != draft.topics
            if are_other or not is_known:
                live.configured = configure(topology, lambda name: count_of(turn, name))
            if are_other:
                draft.topics = topics
            self.topics_version = version
        configured = live.configured
        is_ready = configured is not None and configured.problem is None
        if is_ready:
            self._check_tasks(live)
        validated = topology.epoch if is_ready else NO_TOPOLOGY
        has_changed = validated != draft.step.validated_epoch
        draft.step.validated_epoch = validated
        return has_changed or draft.topics is not draft.group.topics

    def _check_tasks(self, live: LiveStreamsGroup) -> None:
        """Raise Refused if the member declares tasks that do not exist."""
        known = live.configured.subtopologies if live.configured is not None else {}
        for some in (self.owned or NO_TASKS).roles:
            for subtopology_id, partition in some:
                if subtopology_id not in known:
                    message = f"Subtopology {subtopology_id} does not exist in the topology."
                    raise Refused(ErrorCode.INVALID_REQUEST, message)
                count = known[subtopology_id].task_count
                if not 0 <= partition < count:
                    raise Refused(
                        ErrorCode.INVALID_REQUEST,
                        f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this"
                        f" subtopology: {count}",
                    )

    def _take_offsets(self, live: LiveStreamsGroup) -> None:
        """Store the offsets that the member reports, as far as the group has room."""
        command = self.command
        if not command.task_offsets and not command.task_end_offsets:
            return
        known = live.configured.subtopologies if live.configured is not None else {}
        kept = live.offsets.setdefault(command.member_id, ({}, {}))
        room = MOST_OFFSETS - sum(len(each) for pair in live.offsets.values() for each in pair)
        for offsets, rows in zip(
            kept, (command.task_offsets, command.task_end_offsets), strict=True
        ):
            for row in rows:
                task = row.subtopology_id, row.partition
                is_task = task[0] in known and 0 <= task[1] < known[task[0]].task_count
                if is_task and (task in offsets or room > 0):
                    room -= task not in offsets
                    offsets[task] = row.offset

    def _take_configs(self) -> bool:
        """Apply the group's assignment configs. Return whether they have changed."""
        groups, step = self.turn.groups, self.draft.step
        standby_count = groups.number(self.draft.group_id, STREAMS_STANDBYS)
        rack_tags = groups.config(self.draft.group_id, STREAMS_RACK_TAGS)
        has_changed = (standby_count, rack_tags) != (step.standby_count, step.rack_tags)
        step.standby_count, step.rack_tags = standby_count, rack_tags
        return has_changed

    def _grow(self, live: LiveStreamsGroup, *, has_changed: bool, is_empty: bool) -> None:
        """Increase the group's epoch if anything has changed, and compute targets unless the assignment must wait."""
        turn, draft, step = self.turn, self.draft, self.draft.step
        number = turn.groups.number
        if has_changed:
            step.group_epoch += 1
        if is_empty and (delay_ms := number(draft.group_id, STREAMS_INITIAL_DELAY)):
            live.delayed_until_ms = live.delayed_until_ms or turn.now_ms + delay_ms
        if live.delayed_until_ms is not None and turn.now_ms < live.delayed_until_ms:
            self._delay("initial rebalance delay")
            return
        live.delayed_until_ms = None
        if step.group_epoch <= step.assignment_epoch:
            return
        interval_ms = number(draft.group_id, STREAMS_ASSIGNMENT_INTERVAL)
        if live.assigned_ms is not None and turn.now_ms - live.assigned_ms < interval_ms:
            self._delay("assignment interval")
            return
        live.assigned_ms = turn.now_ms
        draft.retarget(_targets(draft, live))

    def _delay(self, config: str) -> None:
        detail = f"Assignment delayed due to the configured {config}."
        self._add_status(ASSIGNMENT_DELAYED, detail)

    def _add_status(self, code: int, detail: str) -> None:
        self.statuses.append(StreamsStatus(code=code, detail=detail))

    def _end(self, live: LiveStreamsGroup) -> StreamsGroupHeartbeatAnswered:
        """Journal the step, restart the session, and return the answer, with the tasks if the member may lack them."""
        turn, draft, command = self.turn, self.draft, self.command
        groups, group_id = turn.groups, draft.group_id
        member = draft.members[command.member_id]
        has_changed = member.current.assigned != self.before.current.assigned
        has_moved = member.metadata.endpoint != self.before.metadata.endpoint
        if has_moved or (has_changed and member.metadata.endpoint is not None):
            draft.step.endpoint_epoch += 1
        keep(turn, draft, live)
        groups.live_streams[group_id] = live
        live.topics_version = self.topics_version or live.topics_version
        timeout_ms = groups.number(group_id, STREAMS_SESSION_TIMEOUT)
        live.set(member.member_id, Deadline.SESSION, turn.now_ms + timeout_ms)
        live.answered_over[member.member_id] = turn.context.session
        answered = StreamsGroupHeartbeatAnswered(
            member_id=member.member_id,
            member_epoch=member.current.member_epoch,
            heartbeat_interval_ms=groups.number(group_id, STREAMS_HEARTBEAT_INTERVAL),
            task_offset_interval_ms=groups.number(group_id, STREAMS_TASK_OFFSET_INTERVAL),
            acceptable_recovery_lag=groups.number(group_id, STREAMS_ACCEPTABLE_LAG),
            endpoint_epoch=draft.step.endpoint_epoch,
        )
        if self.is_joining or has_changed or not self.has_heard:
            answered.has_tasks = True
            answered.tasks.CopyFrom(member.current.assigned.to_record())
        if draft.step.endpoint_epoch != command.endpoint_epoch:
            answered.has_endpoints = True
            answered.endpoints.extend(_endpoints(draft, live))
        self._add_statuses(live, member)
        answered.statuses.extend(self.statuses)
        answered.missing_topics.extend(live.configured.missing if live.configured else ())
        answered.wants_description = self._wants_description(live)
        return answered

    def _add_statuses(self, live: LiveStreamsGroup, member: Member) -> None:
        if live.configured is not None and live.configured.problem is not None:
            self._add_status(*live.configured.problem)
        if by := self.draft.step.shut_down_by:
            self._add_status(
                SHUTDOWN_APPLICATION,
                f"Streams group member {by} encountered a fatal error and requested a shutdown for the entire"
                " application.",
            )
        required = items_of(self.draft.step.rack_tags)
        tags = dict(member.metadata.client_tags)
        missing = [each for each in required if each not in tags]
        if missing and self.command.knows_tags:
            self._add_status(
                MISSING_CLIENT_TAGS,
                f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure"
                " them via 'client.tag.<tagKey>' in your Streams config.",
            )

    def _wants_description(self, live: LiveStreamsGroup) -> bool:
        """Whether to ask this member to describe the topology, because there is no description yet."""
        is_stale = any(each.code == STALE_TOPOLOGY for each in self.statuses)
        is_described = self.draft.group.described_epoch == self.draft.topology_epoch
        if not self.command.knows_tags or is_stale or is_described:
            return False
        if live.asked_ms is not None and self.turn.now_ms - live.asked_ms < _ASK_AGAIN_MS:
            return False
        live.asked_ms = self.turn.now_ms
        return True


def count_of(turn: Turn, name: str) -> int | None:
    """Return the partition count of a topic, or None if there is no such topic."""
    found = turn.topics.find(name)
    return None if found is None else found[1]


def _updated(member: Member, command: StreamsGroupHeartbeat) -> Member:
    """Return the member with its new declarations. Absent fields keep their values."""
    before, timeout_ms = member.metadata, command.rebalance_timeout_ms
    endpoint = (
        (command.endpoint.host, command.endpoint.port) if command.HasField("endpoint") else None
    )
    metadata = Metadata(
        group_instance_id=command.group_instance_id or before.group_instance_id,
        rack_id=command.rack_id if command.HasField("rack_id") else before.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == _SAME else timeout_ms,
        topology_epoch=(
            command.topology.epoch if command.HasField("topology") else before.topology_epoch
        ),
        process_id=command.process_id if command.HasField("process_id") else before.process_id,
        endpoint=endpoint if command.member_epoch == JOINING_EPOCH else endpoint or before.endpoint,
        client_tags=(
            tuple(sorted(command.client_tags.items()))
            if command.has_client_tags
            else before.client_tags
        ),
    )
    return member if metadata == before else replace(member, metadata=metadata)


def _targets(draft: StreamsDraft, live: LiveStreamsGroup) -> dict[str, Tasks]:
    """Return all members' targets, which are empty while the topics do not fit the topology."""
    configured = live.configured
    if configured is None or configured.problem is not None:
        return {}
    runners = [
        Runner(
            member_id,
            member.metadata.process_id,
            member.current.assigned,
            live.offsets.get(member_id, ({}, {}))[0],
        )
        for member_id, member in sorted(draft.members.items())
    ]
    return assign_sticky(runners, configured.subtopologies, draft.step.standby_count)


def _endpoints(draft: StreamsDraft, live: LiveStreamsGroup) -> list[EndpointPartitions]:
    """Return the partitions that each member with an endpoint can answer queries about."""
    found = []
    for _, member in sorted(draft.members.items()):
        if member.metadata.endpoint is None:
            continue
        host, port = member.metadata.endpoint
        active, standby, warmup = member.current.assigned.roles
        found.append(
            EndpointPartitions(
                endpoint=StreamsEndpoint(host=host, port=port),
                active=_partitions(active, live),
                standby=_partitions(standby | warmup, live),
            )
        )
    return found


def _partitions(tasks: Collection[Task], live: LiveStreamsGroup) -> list[TopicNamePartitions]:
    known = live.configured.subtopologies if live.configured is not None else {}
    partitions: dict[str, list[int]] = {}
    for subtopology_id, numbers in by_subtopology(tasks):
        sources = known[subtopology_id].sources if subtopology_id in known else {}
        for topic, count in sources.items():
            if existing := numbers[: bisect_left(numbers, count)]:
                partitions.setdefault(topic, []).extend(existing)
    return [TopicNamePartitions(topic=each, partitions=some) for each, some in partitions.items()]


def _leave(turn: Turn, command: StreamsGroupHeartbeat) -> StreamsGroupHeartbeatAnswered:
    draft = StreamsDraft(command.group_id, find_streams_group(turn, command.group_id))
    instance_id, member_id = command.group_instance_id, command.member_id
    member = finding.find_member(draft, member_id, instance_id)
    live = open_streams(turn, draft)
    if command.shuts_down and not draft.step.shut_down_by:
        draft.step.shut_down_by = member_id
    if command.member_epoch == LEAVING_STATIC_EPOCH:
        # The member can come back until its session ends, and keeps its tasks until then.
        assigned = member.current.assigned
        current = replace(
            member.current,
            member_epoch=LEAVING_STATIC_EPOCH,
            assigned=replace(assigned, active=dict.fromkeys(assigned.active, 0)),
            revoking=NO_TASKS,
        )
        draft.put(replace(member, current=current))
        keep(turn, draft, live)
    else:
        _put_out(turn, draft, live, {member_id})
    return StreamsGroupHeartbeatAnswered(member_id=member_id, member_epoch=command.member_epoch)


def _put_out(
    turn: Turn, draft: StreamsDraft, live: LiveStreamsGroup, member_ids: Collection[str]
) -> None:
    """Remove members that leave or are fenced. The others receive new targets with their next heartbeats."""
    for member_id in sorted(member_ids):
        draft.remove(member_id)
    draft.step.group_epoch += 1
    if not draft.members:
        draft.step.assignment_epoch = draft.step.group_epoch
        draft.step.shut_down_by = ""
        live.assigned_ms = live.delayed_until_ms = None
    keep(turn, draft, live)


def end_overdue_streams_members(turn: Turn) -> None:
    groups = turn.groups
    for group_id, group in finding.possibly_overdue(turn, groups.streams, groups.live_streams):
        draft = StreamsDraft(group_id, group)
        live = open_streams(turn, draft)
        if present := live.overdue(turn.now_ms) & group.members.keys():
            _put_out(turn, draft, live, present)
        live.refresh_due()


def replay_streams_group_step(state: State, record: StreamsGroupStep, _now_ms: int) -> None:
    state.groups.take_streams_step(record)


VERBS: Final = (Verb(streams_group_heartbeat, looks=True),)
REPLAYS: Final = (replay_streams_group_step,)
