"""The `uniform` assignor, which favours balance over stickiness.

A member keeps the partitions that it held and still wants, up to a fair share if all members want the same topics. The
remaining partitions go to the members with the fewest. If subscriptions differ, partitions then move along chains of
members, until no chain leads to a member with at least two partitions fewer than the first in the chain.
"""

import heapq
from collections import deque
from collections.abc import Sequence

from lacuna.controlplane.state.groups.consumer.assignments import Assignment, partitions_of
from lacuna.controlplane.state.groups.consumer.subscriptions import TopicCounts
from lacuna.controlplane.verbs.groups.consumer.assignors import Subscriber, subscribers_of


def assign_uniform(members: Sequence[Subscriber], topics: TopicCounts) -> dict[str, Assignment]:
    """Assign about the same number of partitions to every member, preferably ones that it already held."""
    balance = _Balance(members, topics)
    balance.keep_what_was_held()
    balance.spread_the_rest()
    if not balance.is_homogeneous:
        balance.level()
    return balance.targets()


class _Balance:
    """An assignment in progress: the partitions of each member, and the free ones."""

    def __init__(self, members: Sequence[Subscriber], topics: TopicCounts) -> None:
        ordered = sorted(members, key=lambda each: each.member_id)
        self.members = {each.member_id: each for each in ordered}
        self.topics = topics
        self.order = {topic_id: number for number, topic_id in enumerate(topics)}
        self.held: dict[str, dict[bytes, set[int]]] = {each: {} for each in self.members}
        self.loads = dict.fromkeys(self.held, 0)
        # (member, topic) -> heap of the ranks of the partitions held, once the member has given one away
        self.unwanted: dict[tuple[str, bytes], list[tuple[bool, int]]] = {}
        self.free = {topic_id: set(range(count)) for topic_id, count in topics.items()}
        self.subscribers = subscribers_of(ordered, topics)
        self.is_homogeneous = all(
            len(each) == len(self.members) for each in self.subscribers.values()
        )

    def keep_what_was_held(self) -> None:
        """Let members keep existing, wanted partitions of their last targets, up to their fair share."""
        quotas = self._quotas() if self.is_homogeneous else None
        for member_id in self.held:
            member = self.members[member_id]
            wanted = [each for each in member.target if each in member.topics]
            for topic_id in sorted(wanted, key=self.order.__getitem__):
                for partition in sorted(member.target[topic_id]):
                    is_full = quotas is not None and self.loads[member_id] >= quotas[member_id]
                    if partition in self.free[topic_id] and not is_full:
                        self._take(member_id, topic_id, partition)

    def spread_the_rest(self) -> None:
        """Give free partitions to the subscribers with the fewest, starting with topics with few subscribers."""
        free = [each for each in self.topics if self.free[each] and self.subscribers[each]]
        takers: list[str] = []
        queue: list[tuple[int, str]] = []
        for topic_id in sorted(
            free, key=lambda each: (len(self.subscribers[each]), self.order[each])
        ):
            if self.subscribers[topic_id] is not takers:
                takers = self.subscribers[topic_id]
                queue = [(self.loads[each], each) for each in takers]
                heapq.heapify(queue)
            for partition in sorted(self.free[topic_id]):
                _, member_id = queue[0]
                self._take(member_id, topic_id, partition)
                heapq.heapreplace(queue, (self.loads[member_id], member_id))

    def level(self) -> None:
        """Move partitions along chains until no chain ends at a member with at least two partitions fewer than its
        first member.
        """
        level = max(self.loads.values(), default=0)
        while level >= min(self.loads.values(), default=0) + 2:
            sources = [each for each, load in self.loads.items() if load == level]
            chain = self._find_chain(sources, level - 2)
            if chain:
                for giver, topic_id, taker in chain:
                    self._pass_on(giver, topic_id, taker)
            else:
                level = max(each for each in self.loads.values() if each < level)

    def targets(self) -> dict[str, Assignment]:
        return {
            member_id: {topic_id: frozenset(each) for topic_id, each in held.items() if each}
            for member_id, held in self.held.items()
        }

    def _quotas(self) -> dict[str, int]:
        """Return the fair share of each member. The remainder goes to the members that held the most partitions."""
        quota, extra = divmod(sum(self.topics.values()), len(self.held) or 1)
        had = {each: self._count_held_before(each) for each in self.held}
        favoured = set(sorted(self.held, key=lambda each: (-had[each], each))[:extra])
        return {each: quota + (each in favoured) for each in self.held}

    def _count_held_before(self, member_id: str) -> int:
        target = self.members[member_id].target
        return sum(
            partition < self.topics.get(each, 0) for each, partition in partitions_of(target)
        )

    def _take(self, member_id: str, topic_id: bytes, partition: int) -> None:
        self.free[topic_id].discard(partition)
        self.held[member_id].setdefault(topic_id, set()).add(partition)
        self.loads[member_id] += 1
        if (member_id, topic_id) in self.unwanted:
            heapq.heappush(
                self.unwanted[member_id, topic_id], self._rank(member_id, topic_id, partition)
            )

    def _pass_on(self, giver: str, topic_id: bytes, taker: str) -> None:
        partition = self._pop_least_wanted(giver, topic_id)
        self.held[giver][topic_id].discard(partition)
        self.loads[giver] -= 1
        self._take(taker, topic_id, partition)

    def _pop_least_wanted(self, giver: str, topic_id: bytes) -> int:
        """Take a partition of the topic from the giver's heap, preferably one that it did not hold before."""
        if (giver, topic_id) not in self.unwanted:
            ranks = [self._rank(giver, topic_id, each) for each in self.held[giver][topic_id]]
            heapq.heapify(ranks)
            self.unwanted[giver, topic_id] = ranks
        _, partition = heapq.heappop(self.unwanted[giver, topic_id])
        return -partition

    def _rank(self, member_id: str, topic_id: bytes, partition: int) -> tuple[bool, int]:
        """Return a partition's rank. A member gives away its lowest-ranked partition first."""
        had = partition in self.members[member_id].target.get(topic_id, ())
        return had, -partition

    def _find_chain(self, sources: list[str], low: int) -> list[tuple[str, bytes, str]]:
        """Return the shortest chain of (giver, topic, taker) from a source to a member with a load of at most `low`."""
        came: dict[str, tuple[str, bytes] | None] = dict.fromkeys(sources)
        seen: set[bytes] = set()
        queue = deque(sources)
        while queue:
            giver = queue.popleft()
            for topic_id, partitions in self.held[giver].items():
                if not partitions or topic_id in seen:
                    continue
                seen.add(topic_id)
                for taker in self.subscribers[topic_id]:
                    if taker in came:
                        continue
                    came[taker] = (giver, topic_id)
                    if self.loads[taker] <= low:
                        return _walk_back(came, taker)
                    queue.append(taker)
        return []


def _walk_back(
    came: dict[str, tuple[str, bytes] | None], taker: str
) -> list[tuple[str, bytes, str]]:
    chain: list[tuple[str, bytes, str]] = []
    step = came[taker]
    while step is not None:
        giver, topic_id = step
        chain.append((giver, topic_id, taker))
        taker, step = giver, came[giver]
    return chain
