"""Runs text scripts on the pure machine. Each line is a command and its expected result.

    join a                     -> a: MEMBER_ID_REQUIRED
    join a                     -> a: gen=1 range leader=a of a
    sync a a=A                 -> a: synced A
    after 11s                  ->
    stable                     ->       a and b are members of a stable group; with `static`, as i and j
    given group_max_size=2     ->       settings of groups, from now on

Members are named after their clients. `waits` marks a command that is answered later. Messages to other members follow
after ` | `, on separate lines if necessary. After each line, the durable state is compared with a replay of the whole
journal and with a restored snapshot.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, TypedDict, TypeVar

from lacuna.controlplane import machine
from lacuna.controlplane.decision import Context, Decision
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.shared.history import History
from lacuna.controlplane.state.groups.live import size_of
from lacuna.controlplane.state.groups.settings import GroupSettings
from lacuna.controlplane.state.groups.store import Groups
from lacuna.controlplane.state.partition import Partition
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1 import groups_pb2 as g
from lacuna.controlplane.v1.cluster_pb2 import Outcome, Outcomes, TopicPartition
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.controlplane.v1.group_records_pb2 import GroupsSnapshot
from lacuna.controlplane.verbs.groups.committing import commit_in_transaction
from lacuna.controlplane.verbs.turn import Turn

#: 100 of each topic that partition_of can name.
PARTITIONS = [
    (letter.encode() * 16, index) for letter in string.ascii_lowercase for index in range(100)
]
UNITS_MS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_ms(text: str) -> int:
    """Parse `10s`, `5min` or `250ms`."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits) * UNITS_MS[text[len(digits) :]]


def partition_of(text: str) -> TopicPartition:
    """Parse `t-0`, which is partition 0 of the topic whose id is `t` sixteen times."""
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic_id=topic.encode() * 16, partition=int(partition))


def name_of(partition: TopicPartition) -> str:
    """Return the text that partition_of parses."""
    return f"{partition.topic_id.decode()[0]}-{partition.partition}"


def error_name(code: int) -> str:
    """Return the name of an error, or `ok` for NONE."""
    return ErrorCode(code).name if code else "ok"


def durable(groups: Groups) -> bytes:
    """Return everything that must outlive the process."""
    return b"".join(piece.SerializeToString(deterministic=True) for piece in groups.pieces())


def loaded(snapshot: bytes, settings: GroupSettings | None = None) -> Groups:
    """Return the groups that `durable` serialized."""
    groups = Groups(settings=settings or GroupSettings())
    groups.load(GroupsSnapshot.FromString(snapshot))
    return groups


STABLE = {
    "": """
        join a old        -> a: gen=1 range leader=a of a
        sync a a=A        -> a: synced A
        join b old        -> b: waits
        join a            -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
        sync b            -> b: waits
        sync a a=A b=B    -> a: synced A | b: synced B
    """,
    "static": """
        join a old instance=i -> a: gen=1 range leader=a of a
        sync a a=A            -> a: synced A
        join b instance=j     -> b: waits
        join a instance=i     -> a: gen=2 range leader=a of a,b | b: gen=2 range leader=a
        sync b                -> b: waits
        sync a a=A b=B        -> a: synced A | b: synced B
    """,
}


class Committer(TypedDict):
    """The fields that OffsetCommit and TxnOffsetCommit have in common."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str


@dataclass
class Bench:
    """A state with only groups and partitions, its journal so far, and the waiting clients."""

    stable: ClassVar[Mapping[str, str]] = STABLE
    settings: GroupSettings = field(default_factory=GroupSettings)
    group_id: str = "g"
    now_ms: int = 1_000_000
    next_token: int = 0
    next_id: int = 0
    session: int = 1
    state: State = field(init=False)
    journal: list[Callable[[State], None]] = field(default_factory=list)
    member_ids: dict[str, str] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    generation_id: int = 0

    def __post_init__(self) -> None:
        self.state = State()
        self.state.groups = Groups(settings=self.settings)
        self.add_partitions()

    @property
    def groups(self) -> Groups:
        return self.state.groups

    def add_partitions(self) -> None:
        """Add all partitions. They share a single Partition."""
        self.state.partitions = dict.fromkeys(PARTITIONS, Partition(PARTITIONS[0], History(0)))

    def context(self) -> Context:
        self.next_token += 1
        return Context(
            now_ms=self.now_ms, new_id=self.new_id, token=self.next_token, session=self.session
        )

    def new_id(self) -> bytes:
        self.next_id += 1
        return self.next_id.to_bytes(16, "big")

    def delete_partitions(self, topic_id: bytes) -> None:
        kept = self.state.partitions
        self.state.partitions = {key: kept[key] for key in kept if key[0] != topic_id}

    def apply(self, decision: Decision) -> None:
        for record in decision.records:
            assert record.now_ms == self.now_ms
            self.journal.append(partial(machine.replay, record=record))
            self.journal[-1](self.state)
        self.check()

    def check(self) -> None:
        """Check that the durable state matches the journal and a snapshot."""
        snapshot = durable(self.groups)
        assert durable(loaded(snapshot)) == snapshot
        assert durable(self.replayed()) == snapshot
        for group in self.groups.live.groups.values():
            said = [member.protocols for member in group.members.values()]
            spoken = Counter(name for each in said for name in {name for name, _ in each})
            assert (group.metadata_size, group.speakers) == (sum(map(size_of, said)), spoken)

    def check_every_prefix(self) -> None:
        """Check that a snapshot at any moment, followed by the rest of the journal, gives this state."""
        final = durable(self.groups)
        state, restored = State(), State()
        state.topics = restored.topics = self.state.topics  # tombstones have their names
        for position, event in enumerate(self.journal):
            restored.groups = loaded(durable(state.groups))
            for later in self.journal[position:]:
                later(restored)
            assert durable(restored.groups) == final
            event(state)

    def replayed(self) -> Groups:
        """Return the state of a new process."""
        state = State()
        state.groups = Groups(settings=self.settings)
        state.topics = self.state.topics  # tombstones have their names
        for event in self.journal:
            event(state)
        return state.groups

    def outcome(self, change: Callable[[State], None]) -> None:
        """Apply a record from another part of the machine that affects groups."""
        self.journal.append(change)
        change(self.state)
        self.check()

    def send(self, name: str, command: Command) -> tuple[Reply | None, list[tuple[int, Reply]]]:
        """Decide one command and replay it."""
        context = self.context()
        if command.HasField("txn_offset_commit"):
            turn = Turn(self.state, context)
            decision = turn.end(commit_in_transaction(turn, command.txn_offset_commit))
        else:
            decision = machine.handle(self.state, command, context)
        self.apply(decision)
        if decision.reply is None:
            self.waiting[context.token] = name
        return decision.reply, decision.completions

    def ask(self, command: Command) -> Reply:
        """Return the reply to a command that is answered immediately."""
        reply, completions = self.send("", command)
        assert reply is not None
        assert not completions
        return reply

    def run(self, line: str) -> str:
        """Run one line without its expected result. Return the actual result as text."""
        verb, *words = line.split()
        return str(getattr(self, f"do_{verb}")(*words)).strip()

    def told(self, name: str, sent: tuple[Reply | None, list[tuple[int, Reply]]]) -> str:
        reply, completions = sent
        heads = [f"{name}: {'waits' if reply is None else self.show(name, reply)}"]
        return " | ".join(heads + self.show_completions(completions))

    def show_completions(self, completions: list[tuple[int, Reply]]) -> list[str]:
        shown = []
        for token, reply in completions:
            name = self.waiting.pop(token)  # a token that is completed twice is a KeyError
            shown.append(f"{name}: {self.show(name, reply)}")
        return shown

    def show(self, name: str, reply: Reply) -> str:
        result = reply.WhichOneof("result")
        return str(getattr(self, f"show_{result}")(name, getattr(reply, str(result))))

    def known(self, member_id: str) -> str:
        names = {known_id: name for name, known_id in self.member_ids.items()}
        prefix = member_id[: -len("-00000000-0000-0000-0000-000000000000")]
        return names.get(member_id, self.instances.get(prefix, prefix))

    def do_stable(self, kind: str = "") -> str:
        follow(self, self.stable[kind])
        return ""

    def do_given(self, *words: str) -> str:
        settings = {name: int(value) for name, value in self.options(words).items()}
        self.groups.settings = self.settings = GroupSettings(**settings)
        return ""

    # --- members -----------------------------------------------------------------------------

    def options(self, words: tuple[str, ...]) -> dict[str, str]:
        return dict(word.partition("=")[::2] for word in words)

    def do_join(self, name: str, *words: str) -> str:
        options = self.options(words)
        if "fresh" in options:
            self.member_ids.pop(name, None)
        if "instance" in options:
            self.instances[options["instance"]] = name
        protocols = [
            g.GroupProtocol(name=entry.partition(":")[0], metadata=entry.partition(":")[2].encode())
            for entry in options.get("protocols", "range").split(",")
            if entry
        ]
        session_ms = parse_ms(options.get("session", "10s"))
        command = g.JoinGroup(
            group_id=options.get("group", self.group_id),
            member_id=options.get("id", self.member_ids.get(name, "")),
            group_instance_id=options.get("instance", ""),
            protocol_type=options.get("type", "consumer"),
            protocols=protocols,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=parse_ms(options.get("rebalance", "60s")),
            requires_known_member_id="old" not in options,
            client_id=name,
            client_host="127.0.0.1",
            supports_skipping_assignment="v9" in options,
        )
        return self.told(name, self.send(name, Command(join_group=command)))

    def show_group_joined(self, name: str, joined: g.GroupJoined) -> str:
        if joined.member_id:
            self.member_ids[name] = joined.member_id
        if joined.error_code:
            return error_name(joined.error_code)
        self.generation_id = joined.generation_id
        members = ",".join(self.known(member.member_id) for member in joined.members)
        skip = " skip" if joined.skip_assignment else ""
        return (
            f"gen={joined.generation_id} {joined.protocol_name}"
            f" leader={self.known(joined.leader)}{' of ' + members if members else ''}{skip}"
        )

    def do_sync(self, name: str, *words: str) -> str:
        options = self.options(words)
        assignments = [
            g.MemberAssignment(member_id=self.member_ids[member], assignment=value.encode())
            for member, value in options.items()
            if member in self.member_ids
        ]
        command = g.SyncGroup(
            group_id=options.get("group", self.group_id),
            generation_id=int(options.get("gen", self.generation_id)),
            member_id=options.get("id", self.member_ids.get(name, "")),
            group_instance_id=options.get("instance", ""),
            protocol_type=options.get("type", ""),
            protocol_name=options.get("protocol", ""),
            assignments=assignments,
        )
        return self.told(name, self.send(name, Command(sync_group=command)))

    def show_group_synced(self, name: str, synced: g.GroupSynced) -> str:
        if synced.error_code:
            return error_name(synced.error_code)
        return f"synced {synced.assignment.decode()}".strip()

    def do_heartbeat(self, name: str, *words: str) -> str:
        options = self.options(words)
        command = g.Heartbeat(
            group_id=options.get("group", self.group_id),
            generation_id=int(options.get("gen", self.generation_id)),
            member_id=options.get("id", self.member_ids.get(name, "")),
            group_instance_id=options.get("instance", ""),
        )
        return self.told(name, self.send(name, Command(heartbeat=command)))

    def show_heartbeat_answered(self, name: str, answered: Outcome) -> str:
        return error_name(answered.error_code)

    def do_leave(self, *names: str) -> str:
        members = [
            g.LeavingMember(group_instance_id=name[1:])
            if name.startswith("@")
            else g.LeavingMember(
                member_id=self.member_ids.get(name.partition("@")[0], "nobody"),
                group_instance_id=name.partition("@")[2],
            )
            for name in names
        ]
        command = g.LeaveGroup(group_id=self.group_id, members=members)
        return self.told("left", self.send("", Command(leave_group=command)))

    def show_group_left(self, name: str, left: Outcomes) -> str:
        if left.error_code:
            return error_name(left.error_code)
        return ",".join(error_name(code) for code in left.error_codes)

    def do_forget(self, name: str) -> str:
        """Disconnect the client of a waiting member."""
        for token in [token for token, waiting in self.waiting.items() if waiting == name]:
            self.groups.forget_token(token)
            del self.waiting[token]
        return ""

    # --- offsets -----------------------------------------------------------------------------

    def offsets(self, words: tuple[str, ...]) -> list[g.CommittedOffset]:
        """Parse `t-0@12` or `t-0@12/metadata`, or `t-0@12/*4097` for metadata of that many characters."""
        offsets = []
        for word in words:
            if "@" not in word:
                continue
            place, _, rest = word.partition("@")
            offset, _, metadata = rest.partition("/")
            if metadata.startswith("*"):
                metadata = "x" * int(metadata[1:])
            offsets.append(
                g.CommittedOffset(
                    partition=partition_of(place),
                    offset=int(offset),
                    leader_epoch=-1,
                    metadata=metadata,
                )
            )
        return offsets

    def writer(self, name: str, options: dict[str, str]) -> Committer:
        is_member = name in self.member_ids and "standalone" not in options
        return {
            "group_id": options.get("group", self.group_id),
            "generation_id": int(options.get("gen", self.generation_id if is_member else -1)),
            "member_id": options.get("id", self.member_ids[name] if is_member else ""),
            "group_instance_id": options.get("instance", ""),
        }

    def do_commit(self, name: str, *words: str) -> str:
        options = self.options(tuple(word for word in words if "@" not in word))
        command = g.OffsetCommit(offsets=self.offsets(words), **self.writer(name, options))
        if "keep" in options:
            for each in command.offsets:
                each.retention_ms = parse_ms(options["keep"])
        return self.told(name, self.send(name, Command(offset_commit=command)))

    def do_txn_commit(self, name: str, producer_id: str, *words: str) -> str:
        options = self.options(tuple(word for word in words if "@" not in word))
        command = g.TxnOffsetCommit(
            producer_id=int(producer_id),
            offsets=self.offsets(words),
            **self.writer(name, options),
        )
        return self.told(name, self.send(name, Command(txn_offset_commit=command)))

    def show_offsets_committed(self, name: str, committed: Outcomes) -> str:
        if committed.error_code:
            assert set(committed.error_codes) == {committed.error_code}
            return error_name(committed.error_code)
        return ",".join(error_name(code) for code in committed.error_codes)

    def do_end(self, producer_id: str, outcome: str) -> str:
        committed = {"commit": True, "abort": False}[outcome]
        self.outcome(lambda state: state.groups.end_transaction(int(producer_id), committed))
        return ""

    def do_delete_topic(self, topic: str) -> str:
        topic_id = topic.encode() * 16
        self.delete_partitions(topic_id)
        now_ms = self.now_ms
        self.outcome(lambda state: state.groups.forget_topics({topic_id: topic}, now_ms))
        return ""

    def do_fetch(self, *words: str) -> str:
        """Run `fetch t-0 t-1 [stable]` or `fetch all [stable]`."""
        wanted = [word for word in words if word not in ("all", "stable")]
        group = g.OffsetFetchGroup(
            group_id=self.group_id,
            all_partitions="all" in words,
            partitions=[partition_of(word) for word in wanted],
        )
        command = g.OffsetFetch(groups=[group], require_stable="stable" in words)
        return self.show("", self.ask(Command(offset_fetch=command)))

    def show_offsets_fetched(self, name: str, fetched: g.OffsetsFetched) -> str:
        return " ".join(
            f"{name_of(offset.partition)}={error_name(offset.error_code)}"
            if offset.error_code
            else f"{name_of(offset.partition)}@{offset.offset}"
            + (f"/{offset.metadata}" if offset.metadata else "")
            for offset in fetched.groups[0].offsets
        )

    # --- operators ---------------------------------------------------------------------------

    def do_describe(self, *words: str) -> str:
        command = g.DescribeGroups(group_ids=[*words] or [self.group_id])
        return self.show("", self.ask(Command(describe_groups=command)))

    def show_groups_described(self, name: str, described: g.GroupsDescribed) -> str:
        return ", ".join(
            " ".join(
                [
                    group.state,
                    *([error_name(group.error_code)] if group.error_code else []),
                    *([group.protocol_name] if group.protocol_name else []),
                    *(
                        f"{self.known(member.member_id)}={member.assignment.decode()}"
                        for member in group.members
                    ),
                ]
            )
            for group in described.groups
        )

    def do_list(self, *words: str) -> str:
        options = self.options(words)
        command = g.ListGroups(
            states=[state for state in options.get("states", "").split(",") if state],
            types=[kind for kind in options.get("types", "").split(",") if kind],
        )
        return self.show("", self.ask(Command(list_groups=command)))

    def show_groups_listed(self, name: str, listed: g.GroupsListed) -> str:
        return " ".join(
            f"{group.group_id}:{group.state}:{group.protocol_type}:{group.group_type}"
            for group in listed.groups
        )

    def do_delete(self, *group_ids: str) -> str:
        command = g.DeleteGroups(group_ids=group_ids)
        return self.show("", self.ask(Command(delete_groups=command)))

    def show_groups_deleted(self, name: str, deleted: g.GroupsDeleted) -> str:
        return ",".join(error_name(code) for code in deleted.error_codes)

    # --- time --------------------------------------------------------------------------------

    def do_after(self, duration: str) -> str:
        """Let time pass. The machine checks its deadlines once."""
        self.now_ms += parse_ms(duration)
        decision = machine.tick(self.state, Context(now_ms=self.now_ms, new_id=self.new_id))
        assert decision.reply is None
        self.apply(decision)
        return " | ".join(self.show_completions(decision.completions))

    def do_restart(self) -> str:
        """Start a new process from the journal. All waiting clients have lost their connections."""
        self.state.groups = self.replayed()
        self.waiting.clear()
        return ""

    def do_reconnect(self) -> str:
        """Open a new session for the agent. Messages in flight in the earlier session are lost."""
        self.session += 1
        return ""

    def do_restart_from_snapshot(self) -> str:
        self.state.groups = loaded(durable(self.groups), self.settings)
        self.waiting.clear()
        return ""


B = TypeVar("B", bound=Bench)


def follow(bench: B, script: str) -> B:
    """Run a script on a bench, and compare every line with its expected result."""
    lines = re.sub(r"\n\s*\|", " |", script.strip()).splitlines()
    for number, line in enumerate(lines, 1):
        command, _, expected = line.partition("->")
        if not command.strip() or command.strip().startswith("#"):
            continue
        got = bench.run(command.strip())
        assert got == expected.strip(), f"line {number}: {line.strip()}\ngot {got}"
    return bench


def play(script: str) -> Bench:
    return follow(Bench(), script)
