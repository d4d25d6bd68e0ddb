"""Remembers which partitions are tailed: those at whose end a consumer has recently waited."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from lacuna.agent.fetch.sessions import Interest, Watch
from lacuna.controlplane.shared.partitions import PartitionKey

# The number of partitions remembered, and for how long after a fetch waited at their end.
_MAX_TAILED: Final = 10_000
_TAILED_SECONDS: Final = 10.0


class Tails:
    """The partitions at whose end a consumer waited in the last ten seconds."""

    def __init__(self) -> None:
        self._waited: OrderedDict[PartitionKey, float] = OrderedDict()

    def __contains__(self, key: PartitionKey) -> bool:
        waited = self._waited.get(key)
        return waited is not None and asyncio.get_running_loop().time() < waited + _TAILED_SECONDS

    def remember(self, watch: Watch, interests: Iterable[Interest]) -> None:
        """Remember the partitions of `interests` as tailed, and occasionally all partitions of the session.

        Remembering all of them each time would be slow, since a session may have thousands of partitions.
        """
        now = asyncio.get_running_loop().time()
        if now >= watch.remembered_until:
            watch.remembered_until = now + _TAILED_SECONDS / 2
            interests = watch.interests.values()
        for interest in interests:
            if interest.view is not None:
                key = (interest.view.topic_id, interest.partition)
                self._waited[key] = now
                self._waited.move_to_end(key)
        while len(self._waited) > _MAX_TAILED:
            self._waited.popitem(last=False)
