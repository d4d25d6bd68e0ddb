"""Draws the clients and jobs of a history from a seed, and the partitions on which they work."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tests.simulation import admins, compactor, eos, importers, keyed
from tests.simulation.cluster import Host, Surroundings
from tests.simulation.consumers import Consumer
from tests.simulation.groups import ClassicMember, ConsumerMember, Member, Roamer
from tests.simulation.history import History, Place
from tests.simulation.kafka import Client
from tests.simulation.loop import Process
from tests.simulation.memberships import Group, Watch
from tests.simulation.producers import IdempotentProducer, PlainProducer, TransactionalProducer
from tests.simulation.sharing import Deliveries, Sharer
from tests.simulation.streaming import Streamer, StreamsGroup, StreamsMember
from tests.simulation.tools import Tool, internal_places
from tests.simulation.verifier import Verifier

#: The group of the exactly-once loops.
LOOP_GROUP: Final = "loop"

#: The partition in which only the verifier writes.
VERIFIED: Final = ("v", 0)

Main = Callable[[str, Client], Coroutine[Any, Any, None]]


class ClientHost(Host):
    """A machine for clients. It restarts each killed client under a new name."""

    def __init__(self, cast: Cast, name: str, main: Main) -> None:
        super().__init__(cast.around, name)
        self._cast = cast
        self._main = main

    async def _serve(self, process: Process) -> None:
        client = Client(
            self.around.network,
            self._cast.bootstrap,
            random.Random(self.random.random()),
            request_timeout=self.random.choice((2.0, 5.0, 12.0)),
            served=self._served,
            failed_over=self._failed_over,
        )
        await self._main(f"{self.name}.{self.starts}", client)

    def _served(self) -> None:
        self.progress += 1

    def _failed_over(self) -> None:
        self._cast.history.counts["failovers seen by clients"] += 1

    async def _stop(self) -> None:
        """Do nothing: clients are killed, never stopped."""


class Cast:
    """The clients and jobs of one history. `watch` observes its groups."""

    def __init__(
        self,
        around: Surroundings,
        history: History,
        bootstrap: list[tuple[str, int]],
        watch: Watch,
    ) -> None:
        self.around = around
        self.history = history
        self.bootstrap = bootstrap
        self._watch = watch
        self.places: list[Place] = []
        #: Also those in which others write.
        self.all_places: list[Place] = []
        #: The positions of each group that reads the input of the exactly-once loops, and its partitions.
        self.groups: dict[str, eos.Positions] = {}
        self.loop_partitions: list[int] = []
        self.topics = admins.Topics()
        self.clients: list[ClientHost] = []
        self.jobs: list[compactor.JobHost] = []
        self.keys = keyed.Keys(history)
        self.keyed_places: list[Place] = []
        self.deliveries: Deliveries | None = None

    def draw(self, draw: random.Random) -> None:
        """Draw everything."""
        self.places = [
            (topic, partition)
            for topic in ("a", "b")[: draw.choice((1, 2))]
            for partition in range(draw.choice((1, 2, 3)))
        ]
        self.all_places = [*self.places, VERIFIED]
        self._draw_clients(draw)
        self._draw_importers(self.around.randomness("importers"))
        if self.around.randomness("cuts").random() < 0.5:
            self._add_job("cutter", compactor.look_for_cuts)

    def _draw_importers(self, draw: random.Random) -> None:
        """Draw two importers of one mirror, of which only one makes progress at a time."""
        if draw.random() < 0.5:
            log = importers.Log(draw, self.history, importers.BATCHES)
            self.all_places.append(importers.PLACE)
            for name in importers.NAMES[: draw.choice((1, 2, 2))]:
                self._add_job(name, log.copy)

    def draw_importers(self, draw: random.Random) -> None:
        """Draw two importers of one mirror that is never compacted, and its readers."""
        self.places = self.all_places = [importers.PLACE]
        log = importers.Log(draw, self.history, importers.LONG_BATCHES, is_kept=True)
        for name in importers.NAMES:
            self._add_job(name, log.copy)
        self._add("committed", self._consumer(1))
        self._add("uncommitted", self._consumer(0))

    def draw_few(self, draw: random.Random) -> None:
        """Draw the minimum that can detect lost, duplicate or torn records, and outdated answers."""
        self.places = [("a", partition) for partition in range(draw.choice((1, 2)))]
        self.all_places = [*self.places, VERIFIED]
        self._add("txn", self._transactional("id-0", draw.random() < 0.5, is_alone=True))
        self._add("verifier", self._verifier(draw.random() < 0.5))
        self._add("committed", self._consumer(1, wanders=draw.random() < 0.5))
        if draw.random() < 0.5:
            self._add("idem", self._producer(IdempotentProducer))

    def draw_roamers(self, draw: random.Random) -> None:
        """Draw one group whose members come and go, so that faults rarely find it at rest."""
        places: list[Place] = [("g", number) for number in range(draw.choice((2, 4)))]
        group = Group("roaming", "g", len(places), self._watch)

        def main(_: str, client: Client) -> Coroutine[Any, Any, None]:
            return Roamer(ConsumerMember(group, client, None), self.history).run()

        for number in range(draw.choice((2, 3))):
            self._add(f"roamer-{number}", main)
        self.all_places = places

    def draw_streamers(self, draw: random.Random) -> None:
        """Draw one streams group whose members come and go."""
        places: list[Place] = [("g", number) for number in range(draw.choice((2, 4)))]
        group = StreamsGroup("streaming", "g", len(places), self._watch)

        def main(_: str, client: Client) -> Coroutine[Any, Any, None]:
            return Streamer(StreamsMember(group, client, None), self.history).run()

        for number in range(draw.choice((2, 3))):
            self._add(f"streamer-{number}", main)
        self.all_places = places

    def draw_sharers(self, draw: random.Random) -> None:
        """Draw one share group, and producers that abort half of their transactions."""
        place: Place = ("a", 0)
        self.places = self.all_places = [place]
        deliveries = self.deliveries = Deliveries(self.history)

        def main(name: str, client: Client) -> Coroutine[Any, Any, None]:
            slow = 0.2 if name.startswith("sharer-0") else 0.0
            return Sharer(name, client, self.history, deliveries, slow).run(place)

        for number in range(draw.choice((2, 3))):
            self._add(f"sharer-{number}", main)
        self._add("txn", self._transactional("id-0", draw.random() < 0.5, is_alone=True))
        if draw.random() < 0.5:
            self._add("idem", self._producer(IdempotentProducer))

    def _draw_clients(self, draw: random.Random) -> None:
        has_zombie = draw.random() < 0.4
        for number in range(draw.choice((1, 2, 3))):
            is_alone = number > 0 or not has_zombie
            main = self._transactional(f"id-{number}", draw.random() < 0.5, is_alone=is_alone)
            self._add(f"txn-{number}", main)
        if has_zombie:
            # Two producers with one transactional id: each fences the other.
            self._add("zombie", self._transactional("id-0", draw.random() < 0.5, is_alone=False))
        for number in range(draw.choice((0, 1, 2))):
            self._add(f"idem-{number}", self._producer(IdempotentProducer))
        if draw.random() < 0.5:
            self._add("plain", self._producer(PlainProducer))
        self._add("verifier", self._verifier(draw.random() < 0.5))
        self._add("stubborn", self._consumer(0, self.bootstrap[0]))
        self._add("committed", self._consumer(1))
        self._add("uncommitted", self._consumer(0, wanders=draw.random() < 0.5))
        if draw.random() < 0.5:
            self._add_admin()
        if draw.random() < 0.5:
            for name in ("compactor", "other-compactor")[: draw.choice((1, 2, 2))]:
                self._add_job(name, compactor.compact)
            self._add_keyed(draw)
        if draw.random() < 0.4:
            self._add_job("slow-reader", compactor.read_slowly)
        if draw.random() < 0.6:
            self._add_loops(draw)
        self._add_tool(draw)

    def _add_job(self, name: str, job: compactor.Main) -> None:
        self.jobs.append(compactor.JobHost(self.around, name, self.history, job))

    def _add_keyed(self, draw: random.Random) -> None:
        history, keys = self.history, self.keys
        self.keyed_places = [(keyed.TOPIC, number) for number in range(draw.choice((1, 2)))]

        def transactional(name: str, client: Client) -> Coroutine[Any, Any, None]:
            producer = keyed.KeyedTransactionalProducer(
                name,
                "id-keyed",
                client,
                history,
                client.random,
                is_second=client.random.random() < 0.5,
            )
            producer.keys = keys
            return producer.run(self.keyed_places)

        def idempotent(name: str, client: Client) -> Coroutine[Any, Any, None]:
            producer = keyed.KeyedIdempotentProducer(name, client, history, client.random)
            producer.keys = keys
            return producer.run(self.keyed_places)

        self._add("keyed-txn", transactional)
        if draw.random() < 0.5:
            self._add("keyed-idem", idempotent)
        self._add(
            "keyed-reader",
            lambda name, client: keyed.KeyedConsumer(
                name, client, history, client.random, keys
            ).run(self.keyed_places),
        )

    def _add(self, name: str, main: Main) -> None:
        self.clients.append(ClientHost(self, name, main))

    def _add_tool(self, draw: random.Random) -> None:
        if draw.random() < 0.4:
            self._add(
                "tool",
                lambda name, client: Tool(name, client, self.history, client.random).run(
                    internal_places()
                ),
            )

    def _add_loops(self, draw: random.Random) -> None:
        self.loop_partitions = list(range(draw.choice((1, 2, 4))))
        inputs: list[Place] = [(eos.INPUT, number) for number in self.loop_partitions]
        self._add(
            "input",
            lambda name, client: IdempotentProducer(name, client, self.history, client.random).run(
                inputs
            ),
        )
        # Members of both protocols in one group is what it is while it is upgraded.
        kinds = draw.choice(((ClassicMember,), (ConsumerMember,), (ClassicMember, ConsumerMember)))
        for number in range(draw.choice((1, 2, 3))):
            self._add_loop(f"loop-{number}", draw, draw.choice(kinds))
        if draw.random() < 0.5:
            self._add("committing", self._committing(draw.choice(kinds)))
        outputs: list[Place] = [(eos.OUTPUT, number) for number in self.loop_partitions]
        self.all_places += [*inputs, *outputs]

    def _add_loop(self, host: str, draw: random.Random, kind: type[Member]) -> None:
        is_second, is_static = draw.random() < 0.5, draw.random() < 0.3
        keeps_id = draw.random() < 0.7
        positions = self._positions(LOOP_GROUP)

        def main(name: str, client: Client) -> Coroutine[Any, Any, None]:
            member = self._member(kind, positions, client, host if is_static else None)
            return eos.ExactlyOnceLoop(
                name,
                host if keeps_id else name,
                member,
                self.history,
                positions,
                is_second=is_second,
            ).run()

        self._add(host, main)

    def _committing(self, kind: type[Member]) -> Main:
        group = "committing"
        positions = self._positions(group)
        return lambda name, client: eos.CommittingConsumer(
            name, self._member(kind, positions, client, None), self.history, positions
        ).run()

    def _positions(self, name: str) -> eos.Positions:
        if name not in self.groups:
            group = Group(name, eos.INPUT, len(self.loop_partitions), self._watch)
            self.groups[name] = eos.Positions(group, self.history)
        return self.groups[name]

    def _member(
        self, kind: type[Member], positions: eos.Positions, client: Client, instance_id: str | None
    ) -> Member:
        # Shorter than the session, so that what one lost answer costs is not the member's place in the group.
        client.request_timeout = min(client.request_timeout, 5.0)
        return kind(positions.group, client, instance_id)

    def _add_admin(self) -> None:
        history = self.history
        history.expiring.add(admins.EXPIRING)
        self._add(
            "admin",
            lambda name, client: admins.Admin(
                name,
                client,
                history,
                client.random,
                self.topics,
                self.places,
                [keyed.TOPIC] if self.keyed_places else [],
            ).run(),
        )
        self._add(
            "temp-txn",
            lambda name, client: admins.TemporaryProducer(name, client, history, client.random).run(
                self.places
            ),
        )
        self._add(
            "temp-committed",
            lambda name, client: admins.TemporaryConsumer(
                name, client, history, client.random, 1
            ).run(),
        )

    def _transactional(self, transactional_id: str, is_second: bool, *, is_alone: bool) -> Main:
        def main(name: str, client: Client) -> Coroutine[Any, Any, None]:
            producer = TransactionalProducer(
                name, transactional_id, client, self.history, client.random, is_second=is_second
            )
            producer.may_be_fenced = not is_alone
            return producer.run(self.places)

        return main

    def _verifier(self, is_second: bool) -> Main:
        return lambda name, client: Verifier(
            name, client, self.history, client.random, VERIFIED, is_second=is_second
        ).run([VERIFIED])

    def _producer(self, kind: type[IdempotentProducer] | type[PlainProducer]) -> Main:
        return lambda name, client: kind(name, client, self.history, client.random).run(self.places)

    def _consumer(
        self, isolation: int, address: tuple[str, int] | None = None, *, wanders: bool = False
    ) -> Main:
        """Return a consumer of all partitions. If it has an address or wanders, it does not fetch from the leader."""

        def main(name: str, client: Client) -> Coroutine[Any, Any, None]:
            consumer = Consumer(name, client, self.history, client.random, isolation)
            consumer.address = address
            consumer.wanders = wanders
            # Java's and librdkafka's wait for half a minute or longer.
            client.request_timeout = client.random.choice((5.0, 20.0))
            return consumer.run(self.places)

        return main
