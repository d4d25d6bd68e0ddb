"""Tests random histories: members with both protocols join, beat, leave and vanish, topics change, and processes
restart.

In every history (S26):
- no two living clients ever own the same partition: one revokes it before another gets it;
- once everything is quiet, the group is stable and every partition of a wanted topic has one owner;
- the durable state equals a replay of the journal, and the sums are right after each step (checked by the bench).
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lacuna.controlplane.state.groups.consumer.assignments import partitions_of, without
from lacuna.controlplane.state.groups.states import GroupState
from tests.controlplane.verbs.groups.consumer.bench import ConsumerBench

NEW = st.sampled_from(["a", "b", "c"])
OLD = st.sampled_from(["x", "y"])
WANTS = st.sampled_from(["t", "u", "t,u", ""])
OUT = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND")


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = ConsumerBench()
        self.bench.run("topic t 3")
        self.lives = 0

    # --- clients of the consumer protocol ----------------------------------------------------

    @rule(name=NEW, wants=WANTS, assignor=st.sampled_from(["", "assignor=range"]))
    def join(self, name: str, wants: str, assignor: str) -> None:
        if self.bench.epochs.get(name):
            return
        self.bench.owned.pop(name, None)
        self.bench.run(f"beat {name} epoch=0 topics={wants} {assignor}")

    @rule(name=NEW, owned=st.sampled_from(["", "owned"]))
    def beat(self, name: str, owned: str) -> None:
        """Beat. The client immediately drops partitions that are no longer assigned to it, or all if it is fenced."""
        if self.bench.epochs.get(name) and self.bench.run(f"beat {name} {owned}").endswith(OUT):
            self.forget(name)

    @rule(name=NEW, wants=WANTS)
    def want(self, name: str, wants: str) -> None:
        if self.bench.epochs.get(name):
            told = self.bench.run(f"beat {name} topics={wants}")
            if told.endswith(OUT):
                self.forget(name)

    @rule(name=NEW)
    def leave(self, name: str) -> None:
        if self.bench.epochs.get(name):
            self.bench.run(f"bye {name}")
            self.forget(name)

    @rule(name=NEW)
    def vanish(self, name: str) -> None:
        """Make the client disappear silently, so that it owns nothing."""
        self.forget(name)

    def forget(self, name: str) -> None:
        self.bench.epochs.pop(name, None)
        self.bench.owned.pop(name, None)

    # --- clients of the classic protocol, which give up all before they join ------------------

    @rule(name=OLD, wants=st.sampled_from(["t", "t,u"]))
    def classic_join(self, name: str, wants: str) -> None:
        self.bench.owned.pop(name, None)
        if name in self.bench.waiting.values():
            return
        told = self.bench.run(f"cjoin {name} topics={wants}")
        if "UNKNOWN_MEMBER_ID" in told:
            self.bench.member_ids.pop(name, None)

    @rule(name=OLD)
    def classic_sync(self, name: str) -> None:
        if name in self.bench.member_ids and name not in self.bench.waiting.values():
            group = self.bench.groups.live.groups.get("g")
            if group is None or group.state is GroupState.STABLE:
                self.bench.run(f"csync {name}")

    @rule(name=OLD)
    def classic_beat(self, name: str) -> None:
        if name in self.bench.member_ids and not self.bench.run(f"cbeat {name}").endswith("ok"):
            self.bench.owned.pop(name, None)

    @rule(name=OLD)
    def classic_leave(self, name: str) -> None:
        if name in self.bench.member_ids and name not in self.bench.waiting.values():
            self.bench.run(f"leave {name}")
            self.bench.member_ids.pop(name)
            self.bench.owned.pop(name, None)

    # --- the world ---------------------------------------------------------------------------

    @rule(topic=st.sampled_from("tu"))
    def grow(self, topic: str) -> None:
        grown = self.bench.state.topics_by_name.get(topic)
        self.bench.run(f"topic {topic} {len(grown.partitions) + 1 if grown else 1}")

    @rule(seconds=st.sampled_from([1, 9, 20, 46]))
    def time_passes(self, seconds: int) -> None:
        """Let time pass. Clients whose sessions have timed out stop by themselves, as real ones do."""
        self.bench.run(f"after {seconds}s")
        group = self.bench.groups.consumers.get("g")
        alive = group.members if group is not None else {}
        for name in list(self.bench.owned):
            if self.bench.member_ids.get(name, name) not in alive:
                self.forget(name)

    @rule()
    def restart(self) -> None:
        self.bench.run("restart")

    @rule()
    def all_is_quiet(self) -> None:
        """Check that the group settles if all of its members are living clients of the consumer protocol."""
        group = self.bench.groups.consumers.get("g")
        living = {name for name, epoch in self.bench.epochs.items() if epoch > 0}
        if group is None or set(group.members) != living or not living:
            return
        for name in sorted(living):
            self.beat(name, "owned")
        if {name for name, epoch in self.bench.epochs.items() if epoch > 0} != living:
            return
        self.bench.run("settle")
        wanted = {
            (topic_id, partition)
            for topic_id, count in group.topics.items()
            for partition in range(count)
        }
        owned = [key for name in living for key in partitions_of(self.bench.owned.get(name, {}))]
        assert sorted(owned) == sorted(wanted)

    @invariant()
    def nothing_is_owned_twice(self) -> None:
        group = self.bench.groups.consumers.get("g")
        if group is None:
            return
        names = sorted(self.bench.owned)
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                shared = without(
                    self.bench.owned[one], without(self.bench.owned[one], self.bench.owned[other])
                )
                assert not shared, (one, other, shared)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
