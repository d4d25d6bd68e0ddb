"""Arbitrary commands: every field of every message, with values that are valid often enough."""

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from lacuna.controlplane.shared.batches import COMMITTED_BATCH, SegmentSlice, commit_of
from lacuna.controlplane.shared.partitions import PartitionKey
from lacuna.controlplane.state.state import State
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.log_pb2 import CommitSegment, SegmentId

_BITS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SINT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_EDGES = (-(2**63), -(2**31), -1002, -2, -1, 0, 1, 2, 3, 5, 100, 255, 256, 32766, 32767, 32768)
_HUGE = (2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
_CONFIGS = ("retention.ms", "max.message.bytes", "log.retention.ms", "max.connections", "nonsense")
_TEXTS = (
    "",
    "x",
    "x.y",
    "x_y",
    "..",
    "é\0\n",
    "a" * 250,
    "-1",
    "9" * 5000,
    "٣",
    "delete",
    "Ongoing",
)
_DEEPEST = 6
#: What a classic consumer says that wants topic x and owns partition 0 of it.
EMBEDDED = bytes.fromhex("0001 00000001 0001 78 ffffffff 00000001 0001 78 00000001 00000000")

_ENDING = {"delete_topics", "release_lease", "confirm_collection", "delete_groups"}
VERBS: Any = tuple(Command.DESCRIPTOR.oneofs_by_name["verb"].fields)


def _known(state: State) -> Mapping[str, Callable[[], list[Any]]]:
    """Return values from the state by field name, so that commands pass the first check."""
    members = [
        member_id for group in state.groups.live.groups.values() for member_id in group.members
    ]
    producers = list(state.producers)
    epochs = [found.producer_epoch for found in state.transactional_ids.values()]
    consumers = list(state.groups.consumers.values())
    members += [member_id for group in consumers for member_id in group.members]
    member_epochs = [
        member.current.member_epoch for group in consumers for member in group.members.values()
    ]
    generations = [group.generation_id for group in state.groups.live.groups.values()]
    marks = [partition.high_watermark for partition in state.partitions.values()]
    return {
        "topic_id": lambda: list(state.topics),
        "topic_ids": lambda: list(state.topics),
        "partition": lambda: [0, 1],
        "name": lambda: ["x", "y", "retention.ms", "range", *state.topics_by_name],
        "host": lambda: ["h"],
        "port": lambda: [1, 9092],
        "lease_id": lambda: list(state.leases),
        "lease_ids": lambda: list(state.leases),
        "swept_lease_ids": lambda: list(state.ended_leases),
        "producer_id": lambda: producers,
        "producer_ids": lambda: producers,
        "producer_epoch": lambda: epochs,
        "producer_epochs": lambda: [*epochs, -1],
        "transactional_id": lambda: ["t", "u", *state.transactional_ids],
        "transactional_ids": lambda: ["t", *state.transactional_ids],
        "transaction_timeout_ms": lambda: [1000],
        "group_id": lambda: ["g", "h"],
        "group_ids": lambda: ["g", "h"],
        "member_id": lambda: ["", *members],
        "group_instance_id": lambda: ["", "s"],
        "generation_id": lambda: [-1, *generations, *member_epochs],
        "member_epoch": lambda: [0, 0, 0, -1, -2, *member_epochs],
        "topic_names": lambda: list(state.topics_by_name),
        "topic_regex": lambda: ["", "x.*", "[xy]"],
        "server_assignor": lambda: ["uniform", "range"],
        "protocol_type": lambda: ["consumer"],
        "session_timeout_ms": lambda: [10_000],
        "rebalance_timeout_ms": lambda: [10_000, 0],
        "object_size": lambda: [1000, 2**40],
        "first_offset": lambda: [0, *marks],
        "end_offset": lambda: marks,
        "before_offset": lambda: [-1, *marks],
        "duration_ms": lambda: [1000],
        "pin_id": lambda: list(state.segments.pins),
        "max_bytes": lambda: [2**20],
        "small_bytes": lambda: [2**16],
        "partition_count": lambda: [-1, 1, 2],
        "operation": lambda: [0, 1, 2, 3],
    }


class Arbitrary:
    """Draws commands for a state from a source of randomness."""

    def __init__(self, random: Random, state: State) -> None:
        self.random = random
        self.state = state

    def command(self) -> Command:
        """Return one command, which in rare cases has no verb."""
        self.known = _known(self.state)
        command = Command(command_id=self.random.choice((0, 7, 2**64 - 1)))
        if self.random.random() < 0.01:
            return command
        field = self.random.choice(VERBS)
        if field.name in _ENDING and self.random.random() < 0.7:
            field = self.random.choice(VERBS)  # else little is left to meet
        message = getattr(command, field.name)
        message.SetInParent()
        self._fill(message, field.message_type, 0)
        if field.name in ("join_group", "sync_group", "consumer_group_heartbeat"):
            self._make_welcome(field.name, message)
        if field.name == "commit_segment":
            self._fill_slices(message)
        if field.name == "swap_extents" and self.random.random() < 0.7:
            self._make_fitting(message)
        return command

    def _fill_slices(self, commit: CommitSegment) -> None:
        """Fill in slices for partitions, most of which exist."""
        slices = [SegmentSlice(key, self._batches()) for key in self._keys()]
        filled = commit_of(commit.segment, commit.object_size, slices)
        commit.slices, commit.batches = filled.slices, filled.batches
        if self.random.random() < 0.1:
            commit.batches = commit.batches[: self.random.randrange(100)]

    def _keys(self) -> list[PartitionKey]:
        keys = [*self.state.partitions, (b"?" * 16, 0)]
        return self.random.sample(keys, self.random.randrange(min(4, len(keys) + 1)))

    def _make_welcome(self, verb: str, message: Any) -> None:
        """Adjust the command so that a group usually accepts it."""
        chance = self.random.random()
        if verb == "consumer_group_heartbeat" and chance < 0.8:
            message.has_owned = message.has_topic_names = True
            message.rack_id, message.rebalance_timeout_ms = "r", 10_000
            message.member_id = message.member_id or "m"
            if message.member_epoch == 0:
                message.ClearField("owned")
            if message.server_assignor not in ("uniform", "range"):
                message.ClearField("server_assignor")
        elif verb == "sync_group" and chance < 0.6:
            message.protocol_type = message.protocol_name = ""
        elif verb == "join_group" and chance < 0.6:
            message.session_timeout_ms, message.rebalance_timeout_ms = 10_000, 10_000
            message.protocol_type = "consumer"
            message.protocols.add(name="range", metadata=EMBEDDED)
            if chance < 0.4:
                message.protocols[0].metadata = EMBEDDED

    def _fill(self, message: Any, descriptor: Any, depth: int) -> None:
        for field in descriptor.fields:
            if self.random.random() < 0.12:
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                for _ in range(self.random.choice((0, 0, 1, 2))):
                    name = self.random.choice(_CONFIGS)
                    value = field.message_type.fields_by_name["value"]
                    getattr(message, field.name)[name] = self._value(value)
            elif field.is_repeated:
                self._fill_repeated(getattr(message, field.name), field, depth)
            elif field.message_type is not None:
                getattr(message, field.name).SetInParent()
                self._fill(getattr(message, field.name), field.message_type, depth + 1)
            else:
                setattr(message, field.name, self._value(field))

    def _fill_repeated(self, values: Any, field: FieldDescriptor, depth: int) -> None:
        count = self.random.choice((0, 1, 1, 1, 2, 2, 3))
        for _ in range(count if depth < _DEEPEST else 0):
            if field.message_type is not None:
                self._fill(values.add(), field.message_type, depth + 1)
            else:
                values.append(self._value(field))

    def _batches(self) -> bytes:
        """Return rows of batches with mostly plausible numbers."""
        rows = []
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 2, 3))):
            numbers = (
                self._number((64, 164), 63),
                self._number((100,), 31),
                self._number((1, 3), 31),
                self._number((1, 1000), 63),
                self._number((-1, *self.known["producer_id"]()), 63),
                self._number((-1, 0, *self.known["producer_epoch"]()), 31),
                self._number((0, 1, 3), 31),
                self.random.choice((0, 1, 4, 12, 20, 2**32 - 1)),
            )
            rows.append(COMMITTED_BATCH.pack(*numbers))
        return b"".join(rows)

    def _number(self, likely: Sequence[int], bits: int) -> int:
        """Return usually a likely number, otherwise one at the edge of the field's range."""
        edges = (-(2**bits), -1, 0, 2**bits - 1)
        return self.random.choice(likely if self.random.random() < 0.9 else edges)

    def _make_fitting(self, command: Any) -> None:
        """Make the swap replace real extents, so that only their replacement is arbitrary."""
        for wanted in command.partitions:
            if not self.state.partitions:
                return
            (topic_id, index), found = self.random.choice(list(self.state.partitions.items()))
            wanted.partition.topic_id, wanted.partition.partition = topic_id, index
            lying = found.extents.slice(0, self.random.randint(0, len(found.extents)))
            if self.random.random() < 0.9:
                wanted.fence = found.extents.fence(0, len(lying.sizes))
            wanted.swap.extents.CopyFrom(lying)
            if lying.sizes:
                wanted.swap.first_offset = lying.base_offsets[0]
                wanted.swap.end_offset = lying.next_offsets[-1]
                wanted.compacted_to = min(wanted.compacted_to, lying.next_offsets[-1])
            segment = (
                self.random.choice(command.segments).segment if command.segments else SegmentId()
            )
            for name, value in (
                ("lease_ids", segment.lease_id),
                ("sequences", segment.sequence),
                ("producer_ids", -1),
                ("producer_epochs", -1),
                ("transactions", 0),
                ("flags", 2),
            ):
                column = getattr(wanted.swap.extents, name)
                column[:] = [value] * len(column)
            for field in wanted.swap.extents.DESCRIPTOR.fields:
                column = getattr(wanted.swap.extents, field.name)
                if column and self.random.random() < 0.04:
                    column[self.random.randrange(len(column))] = self._value(field)

    def _value(self, field: FieldDescriptor) -> Any:
        in_group = field.full_name == "controlplane.v1.GroupProtocol.name"
        likely = ["range", "range", "sticky"] if in_group else self.known.get(field.name, list)()
        if likely and self.random.random() < 0.8:
            return self.random.choice(likely)
        if field.type == FieldDescriptor.TYPE_BOOL:
            return self.random.random() < 0.5
        if field.type == FieldDescriptor.TYPE_STRING:
            return self.random.choice(_TEXTS)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self.random.choice((b"", b"\0" * 16, b"short", b"\xff" * 17))
        if field.type == FieldDescriptor.TYPE_DOUBLE:
            return self.random.choice((0.0, 0.5, 1.0, 1e300, -1.0, math.inf, math.nan))
        lowest, highest = _BITS[field.type]
        number = self.random.choice(self.random.choice((_EDGES, _EDGES, _HUGE)))
        return min(max(number, lowest), highest)
