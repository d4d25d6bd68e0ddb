"""Assignments that members of consumer groups (KIP-848) see only in part, since they may not describe all topics.

The control plane sends a member its assignment when the assignment changes, but not when an ACL changes. The agent
therefore remembers the complete assignment, and sends it again once ACLs let the member see a different part. This
memory is up to date, since each change passes through this agent, and changes made through other agents are sent again
when the member comes back (adr/0016).
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from lacuna.wire.messages.consumer_groups import Assignment, TopicPartitions

#: The bound on the total size of what is kept, which counts partitions, characters in names, and _ENTRY_SIZE for each
#: member and topic.
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
    """The complete assignments of the most recent members. Other members wait until their assignment next changes."""

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
        """Return the visible part of a member's assignment. Both in `whole` and in the result, None means that nothing
        is new.

        `whose` must change whenever the results of `may_see` may change.
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
        """Forget a member that has left or knows its complete assignment."""
        gone = self._kept.pop(member, None)
        if gone is not None:
            self._size -= gone.size
