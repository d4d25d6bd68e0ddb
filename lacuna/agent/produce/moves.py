"""Moves: producers that come to this agent from another agent, through which some of their batches may still be in
flight (S12).

Clients change agents when agents join and leave, and not all clients wait for batches that are in flight through the
old agent. The control plane may then decide a batch sent through this agent first. It rejects the batch as out of order
or, if it does not know the producer in that partition, accepts it as the producer's first batch. Either result is fatal
to the producer. By the time its client learns of the gap, the missing batch may have been acknowledged, so the client
appears to be at fault.

Therefore, for some time after agents have joined or left, or after this agent was without a session, the first batch
from a producer in a partition must follow the last batch that the control plane knows. If it does not, the client is
told to send the batch again, for as long as another agent may retry a commit. Most clients send it again once
everything in flight has been answered, and then the batch does follow. After that time, the client gets the control
plane's error. A producer id whose idempotence window may have expired need not wait as long, since the control plane
has most likely forgotten that id's batches (adr/0060).
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from lacuna.agent.produce.buffer import NO_PRODUCER_ID, PendingBatch, ProducerKey
from lacuna.controlplane.client import ClusterView
from lacuna.controlplane.shared.batches import FLAG_FOLLOWS

# The longest time that clients take to notice a change: metadata.max.age.ms and similar configs are five minutes.
_HEARING_SECONDS: Final = 300.0
_MAX_PRODUCERS: Final = 10_000
# A client that has been idle for a day most likely has nothing in flight, since a commit takes less time than this.
_IDLE_SECONDS: Final = 1.0


class Moves:
    """Remembers which producers have continued through this agent since agents last joined or left, or since this
    agent's session began.

    The outcome of another agent's commit is known at most `commit_seconds` after its first attempt. At most
    `_MAX_PRODUCERS` are remembered. If a producer is forgotten, its client may be told to send batches again for twice
    as long.
    """

    def __init__(self, cluster: ClusterView, commit_seconds: float) -> None:
        self._cluster = cluster
        # Half as long again, for the PUT before the commit, and for the answer to arrive.
        self._patience = 1.5 * commit_seconds
        self._session = 0
        self._nodes: frozenset[int] = frozenset()
        self._until = 0.0
        self._settled: set[ProducerKey] = set()
        #: producer -> the loop time until which its client is told to send batches again
        self._told: dict[ProducerKey, float] = {}
        cluster.add_listener(self._on_cluster)
        if cluster.sessions:
            self._on_cluster()

    def close(self) -> None:
        self._cluster.remove_listener(self._on_cluster)

    def mark(self, batches: Iterable[PendingBatch]) -> None:
        """Set FLAG_FOLLOWS on batches that must follow the last one that the control plane knows."""
        if not self._is_unsettled():
            return
        now = asyncio.get_running_loop().time()
        for batch in batches:
            key = batch.producer_key
            if (
                batch.producer_id != NO_PRODUCER_ID
                and batch.base_sequence != 0
                and key not in self._settled
                and self._told.get(key, now) >= now
            ):
                batch.flags |= FLAG_FOLLOWS

    def went_on(self, batch: PendingBatch) -> None:
        """Stop checking a producer's batches, since one of them has been committed."""
        if self._is_unsettled() and batch.producer_id != NO_PRODUCER_ID:
            if len(self._settled) >= _MAX_PRODUCERS:
                self._settled.clear()
            self._settled.add(batch.producer_key)

    def tell(self, batch: PendingBatch, *, is_known: bool = True) -> None:
        """Note that the client is being told to send the batch again, and until when this may be repeated.

        `is_known` means that the control plane knows the producer in that partition, or may come to know it.
        """
        if len(self._told) >= _MAX_PRODUCERS:
            self._told.clear()
        patience = self._patience if is_known else _IDLE_SECONDS
        until = asyncio.get_running_loop().time() + patience
        self._told.setdefault(batch.producer_key, until)

    def _is_unsettled(self) -> bool:
        if self._until and asyncio.get_running_loop().time() >= self._until:
            self._until = 0.0
        return self._until > 0.0

    def _on_cluster(self) -> None:
        """Start checking producers if agents have joined or left or the session is new, since clients may then move.

        The first agent of a cluster, or one that starts before there are topics, takes over no clients.
        """
        session, nodes = self._cluster.sessions, _nodes(self._cluster)
        is_first = self._session == 0
        has_returned = not is_first and session != self._session
        is_changed = nodes != self._nodes and (is_first or bool(self._nodes))
        self._session, self._nodes = session, nodes
        if has_returned or (is_changed and self._cluster.topics_by_id):
            self._until = asyncio.get_running_loop().time() + _HEARING_SECONDS + self._patience
            self._settled.clear()
            self._told.clear()


def _nodes(cluster: ClusterView) -> frozenset[int]:
    return frozenset(agent.node_id for agent in cluster.agents)
