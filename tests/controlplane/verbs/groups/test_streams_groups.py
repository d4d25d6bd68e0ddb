"""Runs scripts for streams groups on the pure machine (KIP-1071), with the lines for consumer groups and these.

app 0:t>r 1:*r+c             ->            the topology: subtopology 0 reads t and writes r; 1 reads the repartition
                                           topic r and has the changelog c; `*r/8` gives r 8 partitions, `=t,u`
                                           copartitions t and u
set num.standby.replicas 1   ->            a config of the group
join a                       -> a: 2 0:0,1 active tasks; `~1:0` are standby tasks, `^1:0` warm-up tasks
join a                       -> a: 1 [3]   [3] is a status: internal topics are missing; `make` creates them
beat a owned                 -> a: 3       reports the tasks that it was given; `beat a has=0:0~1:1` reports others
bye a                        -> a: -1      leaves; `bye a for=-2` leaves temporarily
settle                       -> a=0:0 b=0:1     all members beat until no tasks change
state                        -> Stable 3/3 a=3:0:0 b=3:0:1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from lacuna.controlplane.shared.topic_configs import SET
from lacuna.controlplane.state.groups.streams import (
    NO_TASKS,
    StreamsGroup,
    Subtopology,
    Task,
    Tasks,
)
from lacuna.controlplane.v1 import groups_pb2 as g
from lacuna.controlplane.v1.cluster_pb2 import ConfigChange
from lacuna.controlplane.v1.consumer_groups_pb2 import (
    AlterGroupConfigs,
    CopartitionedTopics,
    DescribeConsumerGroups,
    DescribeTopology,
    InternalTopicInfo,
    StreamsEndpoint,
    StreamsGroupHeartbeat,
    StreamsGroupHeartbeatAnswered,
    StreamsGroupsDescribed,
    StreamsSubtopology,
    StreamsTopology,
    TaskOffset,
)
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.verbs.groups import streams_members, streams_topology
from lacuna.controlplane.verbs.groups.streams_tasks import Runner, assign_sticky
from tests.controlplane.verbs.groups.conftest import error_name, follow
from tests.controlplane.verbs.groups.consumer.bench import ConsumerBench

ROLES = ("", "~", "^")


def shown(tasks: Tasks) -> str:
    """Format tasks as `0:0,1 ~1:2`, or `-` for none."""
    texts = []
    for mark, some in zip(ROLES, tasks.roles, strict=True):
        by_id: dict[str, list[str]] = {}
        for subtopology_id, partition in sorted(some):
            by_id.setdefault(subtopology_id, []).append(str(partition))
        texts += [f"{mark}{each}:{','.join(found)}" for each, found in by_id.items()]
    return " ".join(texts) or "-"


def parsed(text: str) -> Tasks:
    """Parse what `shown` returns, with `+` or spaces between the parts."""
    roles: dict[str, set[Task]] = {mark: set() for mark in ROLES}
    for part in text.replace("+", " ").split():
        if part == "-":
            continue
        mark = part[0] if part[0] in ROLES else ""
        subtopology_id, _, numbers = part.removeprefix(mark).partition(":")
        roles[mark] |= {(subtopology_id, int(each)) for each in numbers.split(",")}
    active, standby, warmup = (frozenset(roles[mark]) for mark in ROLES)
    return Tasks(dict.fromkeys(active, 0), standby, warmup)


def subtopology_of(text: str) -> StreamsSubtopology:
    """Parse `1:t*r/8>s+c=t,r`."""
    made = StreamsSubtopology(subtopology_id=text.partition(":")[0])
    mark, rest = "", text.partition(":")[2]
    for part in (
        rest.replace("*", " *").replace(">", " >").replace("+", " +").replace("=", " =").split()
    ):
        mark, name = (part[0], part[1:]) if part[0] in "*>+=" else ("", part)
        if mark == "*":
            name, _, count = name.partition("/")
            info = InternalTopicInfo(name=name, partition_count=int(count or 0))
            made.repartition_source_topics.append(info)
        elif mark == ">":
            made.repartition_sink_topics.append(name)
        elif mark == "+":
            made.changelog_topics.append(InternalTopicInfo(name=name))
        elif mark == "=":
            names = name.split(",")
            repartitioned = [each.name for each in made.repartition_source_topics]
            made.copartitioned.append(
                CopartitionedTopics(
                    source_topics=[
                        index for index, each in enumerate(made.source_topics) if each in names
                    ],
                    repartition_source_topics=[
                        index for index, each in enumerate(repartitioned) if each in names
                    ],
                )
            )
        else:
            made.source_topics.extend(name.split(","))
    return made


@dataclass
class StreamsBench(ConsumerBench):
    """Like ConsumerBench, with members of streams groups."""

    topology: StreamsTopology = field(default_factory=StreamsTopology)
    missing: Mapping[str, int] = field(default_factory=dict)
    tasks: dict[str, Tasks] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)

    def check(self) -> None:
        super().check()
        for group in self.groups.streams.values():
            fresh = StreamsGroup(group_id=group.group_id)
            fresh.apply(group.to_step())
            assert fresh == group
            assert all(len(each) == 1 for each in group.holders[0].values()), "one runs a task"
            for member in group.members.values():
                roles = member.current.assigned.roles
                assert not roles[1] & roles[2], "no task is a standby and a warm-up task at once"

    def do_app(self, *words: str) -> str:
        options = self.options(tuple(each for each in words if each.startswith("epoch=")))
        some = [subtopology_of(each) for each in words if not each.startswith("epoch=")]
        self.topology = StreamsTopology(epoch=int(options.get("epoch", "0")), subtopologies=some)
        return ""

    def do_set(self, name: str, value: str) -> str:
        change = ConfigChange(name=f"streams.{name}", operation=SET, value=value)
        command = AlterGroupConfigs(group_id=self.group_id, changes=[change])
        reply = self.ask(Command(alter_group_configs=command))
        return reply.group_configs_altered.error_message

    def do_make(self) -> str:
        """Create the internal topics that the last answer requested."""
        for name, count in self.missing.items():
            self.do_topic(name, str(count))
        return " ".join(f"{name}:{count}" for name, count in sorted(self.missing.items()))

    def do_join(self, name: str, *words: str) -> str:
        self.epochs[name] = 0
        return self.beats(name, words, topology=self.topology)

    def do_beat(self, name: str, *words: str) -> str:
        return self.beats(name, words, topology=None)

    def beats(self, name: str, words: tuple[str, ...], topology: StreamsTopology | None) -> str:
        options = self.options(words)
        is_joining = topology is not None
        owned = parsed(options["has"]) if "has" in options else self.tasks.get(name, NO_TASKS)
        owned = NO_TASKS if is_joining else owned
        command = StreamsGroupHeartbeat(
            group_id=options.get("group", self.group_id),
            member_id=options.get("id", name),
            member_epoch=int(options.get("epoch", self.epochs.get(name, 0))),
            group_instance_id=options.get("instance", ""),
            rebalance_timeout_ms=60_000 if is_joining else -1,
            topology=topology,
            has_owned=is_joining or "owned" in options or "has" in options,
            owned=owned.to_record(),
            process_id=options.get("process", f"{name}'s") if is_joining else None,
            endpoint=StreamsEndpoint(host=options["at"], port=1) if "at" in options else None,
            shuts_down="shutdown" in options,
            endpoint_epoch=int(options.get("knows", "0")),
            client_id=name,
            client_host="/127.0.0.1",
            knows_tags="v0" not in options,
        )
        for each in filter(None, options.get("offsets", "").split(",")):
            subtopology_id, partition, offset = each.split("/")
            command.task_offsets.append(
                TaskOffset(
                    subtopology_id=subtopology_id, partition=int(partition), offset=int(offset)
                )
            )
        return self.told(name, self.send(name, Command(streams_group_heartbeat=command)))

    def do_bye(self, name: str, *words: str) -> str:
        options = self.options(words)
        command = StreamsGroupHeartbeat(
            group_id=self.group_id,
            member_id=options.get("id", name),
            member_epoch=int(options.get("for", -1)),
            group_instance_id=options.get("instance", ""),
        )
        self.epochs.pop(name, None)
        self.tasks.pop(name, None)
        return self.told(name, self.send(name, Command(streams_group_heartbeat=command)))

    def show_streams_group_heartbeat_answered(
        self, name: str, answered: StreamsGroupHeartbeatAnswered
    ) -> str:
        self.details = [each.detail for each in answered.statuses]
        if answered.error_code:
            self.details = [answered.error_message]
            return error_name(answered.error_code)
        if answered.member_epoch >= 0:
            self.epochs[name] = answered.member_epoch
        self.missing = {each.name: each.partition_count for each in answered.missing_topics}
        words = [str(answered.member_epoch)]
        if answered.has_tasks:
            self.tasks[name] = Tasks.from_record(answered.tasks)
            words.append(shown(self.tasks[name]))
        if answered.statuses:
            words.append(f"[{','.join(str(each.code) for each in answered.statuses)}]")
        if answered.has_endpoints:
            places = [
                f"{each.endpoint.host}={'+'.join(self._place(row) for row in each.active)}"
                for each in answered.endpoints
            ]
            words.append(f"@{answered.endpoint_epoch} {' '.join(places)}")
        return " ".join(words)

    @staticmethod
    def _place(row: object) -> str:
        return f"{row.topic}:{','.join(map(str, row.partitions))}"  # type: ignore[attr-defined]

    def do_why(self) -> str:
        """Show the details of the statuses in the last answer, or its message."""
        return " | ".join(self.details)

    def do_commit(self, name: str, *words: str) -> str:
        """Commit as clients do since OffsetCommit v9, or with `old`, as earlier ones did."""
        options = self.options(tuple(word for word in words if "@" not in word))
        command = g.OffsetCommit(
            offsets=self.offsets(words),
            knows_member_epochs="old" not in options,
            **self.writer(name, options),
        )
        return self.told(name, self.send(name, Command(offset_commit=command)))

    def do_settle(self, *words: str) -> str:
        quiet = 0
        names = list(self.epochs)
        for _ in range(30):
            told = [self.do_beat(name, "owned") for name in names]
            quiet = 0 if any(" " in each.partition(": ")[2] for each in told) else quiet + 1
            if quiet == 2:
                break
        assert self.groups.streams[self.group_id].state == "Stable"
        return " | ".join(f"{name}={shown(self.tasks.get(name, NO_TASKS))}" for name in names)

    def do_state(self) -> str:
        command = DescribeConsumerGroups(group_ids=[self.group_id])
        reply = self.ask(Command(describe_streams_groups=command))
        return self.show("", reply)

    def show_streams_groups_described(self, _: str, described: StreamsGroupsDescribed) -> str:
        (group,) = described.groups
        if group.error_code:
            return error_name(group.error_code)
        members = [
            f"{each.metadata.client_id}={each.member_epoch}:{shown(Tasks.from_record(each.assigned))}"
            for each in group.members
        ]
        head = f"{group.state} {group.group_epoch}/{group.assignment_epoch}"
        return " | ".join([head, *members])

    def do_tell(self, name: str, epoch: str, text: str) -> str:
        """Describe the topology. Return the name of the error."""
        command = DescribeTopology(
            group_id=self.group_id,
            member_id=name,
            topology_epoch=int(epoch),
            description=text.encode(),
        )
        reply = self.ask(Command(describe_topology=command))
        return error_name(reply.topology_described.error_code)


BEGIN = """
    set initial.rebalance.delay.ms 0 ->
    set assignment.interval.ms 0  ->
    topic t 4                     ->
"""


def play(script: str) -> StreamsBench:
    """Run a script after BEGIN, and compare every line with its expected result."""
    bench = follow(StreamsBench(), BEGIN + script)
    bench.check_every_prefix()
    return bench


def test_a_task_is_given_once_its_owner_has_given_it_up() -> None:
    """S26: the new member waits until the other one reports that it no longer has the tasks."""
    play("""
    app 0:t                       ->
    join a                        -> a: 2 0:0,1,2,3
    state                         -> Stable 2/2 | a=2:0:0,1,2,3
    join b                        -> b: 3 -
    beat a                        -> a: 2 0:0,1
    beat b                        -> b: 3
    beat a has=0:0,1,2            -> a: 2
    beat b                        -> b: 3
    beat a owned                  -> a: 3
    beat b                        -> b: 3 0:2,3
    state                         -> Stable 3/3 | a=3:0:0,1 | b=3:0:2,3
    bye a                         -> a: -1
    beat b                        -> b: 4 0:0,1,2,3
    bye b                         -> b: -1
    state                         -> Empty 5/5
    list                          -> g:Empty:streams:streams
    """)


def test_topics_that_do_not_fit_are_told() -> None:
    """The statuses are MISSING_SOURCE_TOPICS and INCORRECTLY_PARTITIONED_TOPICS, with Kafka's wording."""
    play("""
    app 0:x,y=x,y                 ->
    join a                        -> a: 2 - [1]
    why                           -> Source topics x, y are missing.
    topic x 4                     ->
    topic y 2                     ->
    beat a                        -> a: 3 [2]
    why                           -> Following topics do not have the same number of partitions: [{x=4, y=2}]
    topic y 4                     ->
    beat a                        -> a: 4 0:0,1,2,3
    topic x 5                     ->
    topic y 5                     ->
    beat a                        -> a: 5 0:0,1,2,3,4
    drop x                        ->
    beat a                        -> a: 5 - [1]
    """)
    play("""
    app 0:t>r 1:*r+c              ->
    topic r 3                     ->
    join a                        -> a: 2 - [2]
    why                           -> Existing topic r has different number of partitions: expected 4, found 3
    """)
    bench = play("""
    app 0:t>r 1:t*r/8+c=t,r       ->
    join a                        -> a: 2 - [2]
    """)
    assert bench.run("why") == (
        "Number of partitions [8] of repartition topic [r] doesn't match number of partitions [4] of the source topic."
    )


@pytest.mark.parametrize(
    ("app", "why"),
    [
        ("0:*r", "because a repartition source topic is never used as a sink topic."),
        ("0:*r>r", "There may be loops in the topology that cannot be resolved."),
        ("0:t 0:t", "A subtopology occurs twice."),
        ("0:+c", "No source topics found for subtopology 0"),
        ("0:t epoch=-1", "The topology epoch is -1, but must not be negative."),
        ("0:*r/99999", "Repartition topic r has 99999 partitions."),
    ],
)
def test_an_invalid_topology_is_refused(app: str, why: str) -> None:
    """A first member that is rejected leaves no group behind."""
    bench = play(f"""
    app {app}                     ->
    join a                        -> a: STREAMS_INVALID_TOPOLOGY
    list                          ->
    """)
    assert bench.details[0].endswith(why)
    assert not bench.groups.live_streams


@pytest.mark.slow
def test_a_topology_is_bounded() -> None:
    """It is configured, and its tasks are assigned, in a single step."""
    bench = StreamsBench()
    for number in range(3):
        bench.do_topic("xyz"[number], "7000")
    bench.do_app(*(f"{number}:{'xyz'[number]}" for number in range(3)))
    assert bench.run("join a") == "a: STREAMS_INVALID_TOPOLOGY"
    assert bench.run("why").startswith("The topology has 21000 tasks")
    bench.do_app(*(f"{number}:t" for number in range(1001)))
    assert bench.run("join a") == "a: STREAMS_INVALID_TOPOLOGY"
    assert "at most 1000 subtopologies" in bench.run("why")


SCRIPTS = {
    # A repartition topic has as many partitions as what is written to it, and a changelog as many as its tasks.
    "internal topics are asked for and found": """
        app 0:t>r 1:*r+c              ->
        join a                        -> a: 2 - [3]
        why                           -> Internal topics are missing: c, r
        state                         -> NotReady 2/2 | a=2:-
        make                          -> c:4 r:4
        beat a                        -> a: 3 0:0,1,2,3 1:0,1,2,3
        state                         -> Stable 3/3 | a=3:0:0,1,2,3 1:0,1,2,3
    """,
    "internal topics of a chain are asked for and found": """
        app 0:t>r>s 1:*r/8>v+c 2:*s*v+d ->
        join a                        -> a: 2 - [3]
        make                          -> c:8 d:8 r:8 s:4 v:8
        beat a                        -> a: 3 0:0,1,2,3 1:0,1,2,3,4,5,6,7 2:0,1,2,3,4,5,6,7
    """,
    # A member with an older one gets no tasks (STALE_TOPOLOGY is 0), and one with another one is refused.
    "the topology of a group stays": """
        app 0:t epoch=1               ->
        join a                        -> a: 2 0:0,1,2,3
        app 0:t epoch=0               ->
        join b                        -> b: 3 - [0]
        why                           -> The member's topology epoch 0 is behind the group's topology epoch 1.
        app 0:t+c epoch=1             ->
        join c                        -> c: INVALID_REQUEST
        why                           -> Topology updates are not supported yet.
        app 0:t epoch=2               ->
        join c                        -> c: INVALID_REQUEST
    """,
    # ASSIGNMENT_DELAYED is 5. A member without an assignment has epoch 1, as in Kafka.
    "assignments wait as configured": """
        app 0:t                       ->
        set initial.rebalance.delay.ms 3000 ->
        join a                        -> a: 1 - [5]
        why                           -> Assignment delayed due to the configured initial rebalance delay.
        join b                        -> b: 1 - [5]
        after 2s                      ->
        beat a                        -> a: 1 [5]
        after 1s                      ->
        beat a                        -> a: 3 0:0,2
        beat b                        -> b: 3 0:1,3
        set assignment.interval.ms 1000 ->
        join c                        -> c: 3 - [5]
        why                           -> Assignment delayed due to the configured assignment interval.
        state                         -> Assigning 4/3 | a=3:0:0,2 | b=3:0:1,3 | c=3:-
        after 1s                      ->
        beat c                        -> c: 4
        settle                        -> a=0:0,2 | b=0:1 | c=0:3
    """,
    # -2 keeps its tasks, -1 frees them. A second one with the instance id is refused, and an earlier one is fenced.
    "a static member comes back to its tasks": """
        app 0:t                       ->
        join a instance=i process=p   -> a: 2 0:0,1,2,3
        join b instance=j             -> b: 3 -
        settle                        -> a=0:0,1 | b=0:2,3
        bye a instance=i for=-2       -> a: -2
        beat b                        -> b: 3
        join x instance=i process=p   -> x: 3 0:0,1
        state                         -> Stable 3/3 | b=3:0:2,3 | x=3:0:0,1
        join y instance=i             -> y: UNRELEASED_INSTANCE_ID
        beat a instance=i epoch=3     -> a: FENCED_INSTANCE_ID
        beat b instance=k             -> b: UNKNOWN_MEMBER_ID
        bye b instance=j              -> b: -1
        beat x                        -> x: 4 0:0,1,2,3
    """,
    # S26: a fenced member must join again.
    "epochs and tasks are checked": """
        app 0:t                       ->
        beat a epoch=1                -> a: GROUP_ID_NOT_FOUND
        join a                        -> a: 2 0:0,1,2,3
        beat a epoch=5                -> a: FENCED_MEMBER_EPOCH
        beat a epoch=1                -> a: FENCED_MEMBER_EPOCH
        beat z epoch=1                -> z: UNKNOWN_MEMBER_ID
        beat a has=9:0                -> a: INVALID_REQUEST
        why                           -> Subtopology 9 does not exist in the topology.
        beat a has=0:7                -> a: INVALID_REQUEST
        beat a epoch=-3               -> a: INVALID_REQUEST
        beat a id= epoch=2            -> a: INVALID_REQUEST
        beat a epoch=0                -> a: INVALID_REQUEST
        join a                        -> a: 2 0:0,1,2,3
        bye z                         -> z: UNKNOWN_MEMBER_ID
    """,
    # Its last answer may be lost (adr/0016).
    "a member hears its tasks again over another session": """
        app 0:t                       ->
        join a                        -> a: 2 0:0,1,2,3
        join b                        -> b: 3 -
        beat a                        -> a: 2 0:0,1
        beat a owned                  -> a: 3
        reconnect                     ->
        beat a epoch=2                -> a: 3 0:0,1
        beat a                        -> a: 3
        restart                       ->
        beat b                        -> b: 3 0:2,3
    """,
    # It declares the standby task that the lost answer made active.
    "a member that missed a promotion is not fenced": """
        topic c 4                     ->
        app 0:t+c                     ->
        set num.standby.replicas 1    ->
        join a                        -> a: 2 0:0,1,2,3
        join b                        -> b: 3 ~0:0,1
        bye a                         -> a: -1
        beat b owned                  -> b: 4 0:0,1,2,3
        reconnect                     ->
        beat b epoch=3 has=~0:0,1     -> b: 4 0:0,1,2,3
        beat b epoch=3 has=~0:0,1     -> b: FENCED_MEMBER_EPOCH
    """,
    # A session lasts 45 s, and revoking as long as the member's rebalance timeout, here 60 s.
    "silent members are removed": """
        app 0:t                       ->
        join a                        -> a: 2 0:0,1,2,3
        join b                        -> b: 3 -
        after 40s                     ->
        beat b                        -> b: 3
        after 10s                     ->
        beat b                        -> b: 4 0:0,1,2,3
        join c                        -> c: 5 -
        beat b                        -> b: 4 0:0,1
        after 40s                     ->
        beat b                        -> b: 4
        beat c                        -> c: 5
        after 30s                     ->
        beat b                        -> b: UNKNOWN_MEMBER_ID
        beat c                        -> c: 6 0:0,1,2,3
        restart                       ->
        after 40s                     ->
        state                         -> Stable 6/6 | c=6:0:0,1,2,3
        after 46s                     ->
        state                         -> Empty 7/7
    """,
    # Questions go to the member that has the partition. The epoch grows with each change.
    "what others must know of endpoints": """
        app 0:t                       ->
        join a at=h                   -> a: 2 0:0,1,2,3 @1 h=t:0,1,2,3
        beat a knows=1                -> a: 2
        join b at=k                   -> b: 3 - @2 h=t:0,1,2,3 k=
        beat a owned knows=1          -> a: 2 0:0,1 @3 h=t:0,1 k=
        beat a owned knows=3          -> a: 3
        beat b owned knows=3          -> b: 3 0:2,3 @4 h=t:0,1 k=t:2,3
        restart                       ->
        beat b knows=3                -> b: 3 0:2,3 @4 h=t:0,1 k=t:2,3
    """,
    # A task has the partition with its number of each topic that has one.
    "topics of a task may have fewer partitions": """
        topic s 2                     ->
        app 0:s,t                     ->
        join a at=h                   -> a: 2 0:0,1,2,3 @1 h=s:0,1+t:0,1,2,3
        join b at=k                   -> b: 3 - @2 h=s:0,1+t:0,1,2,3 k=
        beat a owned knows=2          -> a: 2 0:0,1 @3 h=s:0,1+t:0,1 k=
        beat a owned knows=3          -> a: 3
        beat b owned knows=3          -> b: 3 0:2,3 @4 h=s:0,1+t:0,1 k=t:2,3
    """,
    # SHUTDOWN_APPLICATION is 4. It ends with the last member.
    "one member shuts all down": """
        app 0:t                       ->
        join a                        -> a: 2 0:0,1,2,3
        join b                        -> b: 3 -
        beat a shutdown               -> a: 2 0:0,1 [4]
        restart                       ->
        beat b                        -> b: 3 - [4]
        bye a                         -> a: -1
        bye b                         -> b: -1
        join c                        -> c: 6 0:0,1,2,3
    """,
    # An empty classic group becomes a streams group, and the reverse. Others get the errors of Kafka.
    "a group has one kind": """
        app 0:t                       ->
        commit q t-1@4                -> q: ok
        join a                        -> a: 2 0:0,1,2,3
        cjoin c topics=t              -> c: INCONSISTENT_GROUP_PROTOCOL
        describe g                    -> Dead GROUP_ID_NOT_FOUND
        list types=streams            -> g:Stable:streams:streams
        list types=consumer           ->
        bye a                         -> a: -1
        cjoin c topics=t old          -> c: gen=1 range leader=c of c
        list                          -> g:CompletingRebalance:consumer:classic
        beat a epoch=1                -> a: GROUP_ID_NOT_FOUND
        join a                        -> a: GROUP_ID_NOT_FOUND
        state                         -> GROUP_ID_NOT_FOUND
    """,
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_streams_groups(script: str) -> None:
    play(script)


@pytest.mark.slow
def test_standby_tasks_are_elsewhere_and_take_over() -> None:
    """A process never has a task twice. A standby task becomes active in its own process."""
    play("""
    topic c 4                     ->
    app 0:t+c                     ->
    set num.standby.replicas 1    ->
    join a                        -> a: 2 0:0,1,2,3
    join b process=a's            -> b: 3 -
    settle                        -> a=0:0,1 | b=0:2,3
    join c                        -> c: 4 ~0:0,1,2
    settle                        -> a=0:0,1 | b=0:2 ~0:3 | c=0:3 ~0:0,1,2
    bye c                         -> c: -1
    settle                        -> a=0:0,1 | b=0:2,3
    join c                        -> c: 6 ~0:0,1,2
    settle                        -> a=0:0,1 | b=0:2 ~0:3 | c=0:3 ~0:0,1,2
    bye a                         -> a: -1
    bye b                         -> b: -1
    settle                        -> c=0:0,1,2,3
    """)


def test_members_of_a_group_report_a_bounded_number_of_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Known offsets can be updated, and a member that leaves makes room for others."""
    monkeypatch.setattr(streams_members, "MOST_OFFSETS", 3)
    bench = play("""
    topic c 4                     ->
    app 0:t+c                     ->
    join a                        -> a: 2 0:0,1,2,3
    beat a offsets=0/0/5,0/1/5,0/9/5 -> a: 2
    join b offsets=0/2/5,0/3/5    -> b: 3 -
    beat a offsets=0/0/7,0/3/7    -> a: 2 0:0,1
    """)
    kept = {name: offsets for name, (offsets, _) in bench.groups.live_streams["g"].offsets.items()}
    assert kept == {"a": {("0", 0): 7, ("0", 1): 5}, "b": {("0", 2): 5}}
    bench.do_bye("b")
    bench.do_beat("a", "offsets=0/3/8")
    assert bench.groups.live_streams["g"].offsets["a"][0]["0", 3] == 8


def test_required_tags_are_asked_for() -> None:
    """The status MISSING_CLIENT_TAGS (6) is unknown to clients that use v0."""
    bench = play("""
    app 0:t                       ->
    set rack.aware.assignment.tags zone ->
    join a v0                     -> a: 2 0:0,1,2,3
    beat a                        -> a: 2 [6]
    """)
    assert bench.do_set("rack.aware.assignment.tags", "a,a").endswith("a list of distinct tags")


def test_a_member_commits_for_the_tasks_that_it_has_had() -> None:
    """S26: an older epoch is accepted if the member has had the task since then (KIP-1251)."""
    play("""
    app 0:t                       ->
    join a                        -> a: 2 0:0,1,2,3
    commit a t-0@1 id=a gen=2     -> a: ok
    commit a t-0@1 id=a gen=2 old -> a: UNSUPPORTED_VERSION
    join b                        -> b: 3 -
    beat a                        -> a: 2 0:0,1
    commit a t-2@1 id=a gen=2     -> a: ok
    beat a owned                  -> a: 3
    commit a t-0@3 id=a gen=2     -> a: ok
    commit a t-0@4 id=a gen=1     -> a: STALE_MEMBER_EPOCH
    commit a t-0@4 id=a gen=4     -> a: STALE_MEMBER_EPOCH
    commit a t-2@4 id=a gen=2     -> a: STALE_MEMBER_EPOCH
    txn_commit a 7 t-0@5 id=a gen=2 -> a: ok
    txn_commit a 7 t-2@5 id=a gen=2 -> a: STALE_MEMBER_EPOCH
    commit q t-2@4 id=q gen=3     -> q: UNKNOWN_MEMBER_ID
    end 7 commit                  ->
    fetch t-0 t-2                 -> t-0@5 t-2@1
    delete_offsets t-0            -> GROUP_SUBSCRIBED_TO_TOPIC
    delete g                      -> NON_EMPTY_GROUP
    bye a                         -> a: -1
    bye b                         -> b: -1
    commit q t-1@4                -> q: ok
    delete_offsets t-0            -> ok
    delete g                      -> ok
    list                          ->
    """)


def test_a_description_of_the_topology_is_kept() -> None:
    """KIP-1331: only a member may send it, and only for the group's current topology."""
    bench = play("""
    app 0:t                       ->
    join a                        -> a: 2 0:0,1,2,3
    tell q 0 text                 -> UNKNOWN_MEMBER_ID
    tell a 1 text                 -> INVALID_REQUEST
    tell a 0 text                 -> ok
    """)
    assert bench.groups.streams["g"].description == b"text"
    bench.do_tell("a", "0", "x" * ((1 << 20) + 1))
    assert bench.groups.streams["g"].description == b"text"


def test_a_long_chain_is_configured_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each subtopology is examined twice, although each reads what the one after it writes."""
    looks = 0
    real = streams_topology._most_read

    def most_read(*args: Any) -> int | None:
        nonlocal looks
        looks += 1
        return real(*args)

    monkeypatch.setattr(streams_topology, "_most_read", most_read)
    chain = [subtopology_of(f"{n}:*r{n}>r{n - 1}" if n else "0:*r0+c") for n in range(200)]
    chain.append(subtopology_of("200:t>r199"))
    configured = streams_topology.configure(
        StreamsTopology(subtopologies=chain), {"t": 3, "c": 3}.get
    )
    assert {each.partition_count for each in configured.missing} == {3}
    assert (len(configured.missing), looks) == (200, 402)


def subtopologies(**counts: int) -> dict[str, Subtopology]:
    """Return subtopologies by id. Those whose names begin with `s` have state."""
    return {
        name: Subtopology(count, name.startswith("s"), {}) for name, count in sorted(counts.items())
    }


@pytest.mark.parametrize(
    ("before", "topology", "standbys", "after"),
    [
        # Nothing moves as long as all have about as many.
        ({"a/p": "x:0,1", "b/q": "x:2,3"}, {"x": 4}, 0, {"a/p": "x:0,1", "b/q": "x:2,3"}),
        ({"a/p": "x:0,1,2,3", "b/q": ""}, {"x": 4}, 0, {"a/p": "x:0,1", "b/q": "x:2,3"}),
        ({"a/p": "", "b/q": "", "c/r": ""}, {"x": 2}, 0, {"a/p": "x:0", "b/q": "x:1", "c/r": "-"}),
        # What has a standby task becomes active first.
        ({"a/p": "~s:1", "b/q": "~s:0"}, {"s": 2}, 0, {"a/p": "s:1", "b/q": "s:0"}),
        # Standby tasks are on other processes, and stay.
        (
            {"a/p": "s:0,1 ~s:2,3", "b/q": "s:2,3 ~s:0,1"},
            {"s": 4},
            1,
            {"a/p": "s:0,1 ~s:2,3", "b/q": "s:2,3 ~s:0,1"},
        ),
        ({"a/p": "s:0", "b/p": ""}, {"s": 1}, 1, {"a/p": "s:0", "b/p": "-"}),
        # Stateless subtopologies have none.
        ({"a/p": "", "b/q": ""}, {"s": 1, "x": 1}, 1, {"a/p": "s:0", "b/q": "x:0 ~s:0"}),
        # A task that moves leaves a standby task behind.
        (
            {"a/p": "s:0,1", "b/q": ""},
            {"s": 2},
            1,
            {"a/p": "s:0 ~s:1", "b/q": "s:1 ~s:0"},
        ),
    ],
)
def test_tasks_are_assigned(
    before: dict[str, str], topology: dict[str, int], standbys: int, after: dict[str, str]
) -> None:
    """This is the `sticky` assignor. The keys are member/process."""
    runners = [
        Runner(each.partition("/")[0], each.partition("/")[2], parsed(tasks))
        for each, tasks in sorted(before.items())
    ]
    targets = assign_sticky(runners, subtopologies(**topology), standbys)
    assert {name: shown(targets[name.split("/")[0]]) for name in before} == after


def test_tasks_go_to_members_that_know_more_of_their_state() -> None:
    """Members report how far they have read each changelog into their state on disk."""
    runners = [
        Runner("a", "p", NO_TASKS, {("s", 0): 5}),
        Runner("b", "q", NO_TASKS, {("s", 0): 7, ("s", 1): 1}),
    ]
    targets = assign_sticky(runners, subtopologies(s=2), 0)
    assert {name: shown(tasks) for name, tasks in targets.items()} == {"a": "s:1", "b": "s:0"}


@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_many_tasks_are_balanced_and_few_move(standbys: int) -> None:
    """All tasks are assigned, evenly among the members, and few tasks move apart from those of a member that leaves."""
    topology = subtopologies(s0=40, s1=33, x=40)
    runners = [Runner(f"m{each}", f"p{each // 2}") for each in range(8)]
    targets = assign_sticky(runners, topology, standbys)
    assert_fair(topology, targets, standbys)
    left = [
        Runner(each.member_id, each.process_id, targets[each.member_id]) for each in runners[1:]
    ]
    after = assign_sticky(left, topology, standbys)
    assert_fair(topology, after, standbys)
    moved = sum(
        len(targets[each.member_id].active.keys() - after[each.member_id].active.keys())
        for each in left
    )
    assert moved <= (0 if not standbys else 10)


def assert_fair(
    topology: Mapping[str, Subtopology], targets: Mapping[str, Tasks], standbys: int
) -> None:
    active = [task for each in targets.values() for task in each.active]
    every = {(name, n) for name, each in topology.items() for n in range(each.task_count)}
    assert sorted(active) == sorted(every)
    copies = sum(len(each.standby) for each in targets.values())
    assert copies == standbys * sum(
        each.task_count for each in topology.values() if each.is_stateful
    )
    sizes = [len(each) for each in targets.values()]
    assert max(sizes) - min(sizes) <= 2 + 4 * standbys
