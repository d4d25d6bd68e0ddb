"""Assignments of which members of consumer groups (KIP-848) were told a part: they may not describe the other topics.

The control plane tells a member its assignment when that changes, and nothing changes there when an ACL does. So the
agent remembers the whole assignment, and tells the member again once ACLs let it see another part. What is remembered
is what the member has: each change comes past here, and what changed elsewhere is told again when the member comes back
(adr/0016).
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from lacuna.wire.messages.consumer_group_heartbeat import Assignment, TopicPartitions

#: What is kept in all: partitions, characters of names, and _ENTRY_SIZE for each member and topic.
_MOST: Final = 1_000_000
_ENTRY_SIZE: Final = 64

#: Group id, member id.
_Member = tuple[str, str]


class _Kept(NamedTuple):
    whole: Assignment
    shown: Assignment
    whose: Hashable
    size: int


class CutAssignments:
    """What is remembered of those members, the latest ones: the others wait for the next change of their assignment."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Member, _Kept] = OrderedDict()
        self._size = 0

    def shown(
        self,
        member: _Member,
        whole: Assignment | None,
        may_see: Callable[[TopicPartitions], bool],
        whose: Hashable,
    ) -> Assignment | None:
        """Return what a member is told of its assignment; None, as for `whole`, if it has nothing new to hear.

        `whose` stays the same as long as the answers of `may_see` do.
        """
        told = None
        if whole is None:
            before = self._kept.get(member)
            if before is None or before.whose == whose:
                return None
            whole, told = before.whole, before.shown
        shown = Assignment([each for each in whole.topic_partitions if may_see(each)])
        self.forget(member)
        if len(shown.topic_partitions) < len(whole.topic_partitions):
            self._keep(member, whole, shown, whose)
        return None if shown == told else shown

    def _keep(self, member: _Member, whole: Assignment, shown: Assignment, whose: Hashable) -> None:
        sizes = (len(each.partitions) + _ENTRY_SIZE for each in whole.topic_partitions)
        size = _ENTRY_SIZE + sum(map(len, member)) + sum(sizes)
        self._kept[member] = _Kept(whole, shown, whose, size)
        self._size += size
        while self._size > _MOST:
            self.forget(next(iter(self._kept)))

    def forget(self, member: _Member) -> None:
        """Forget a member, which has left or was told everything."""
        gone = self._kept.pop(member, None)
        if gone is not None:
            self._size -= gone.size
