"""S12 under random failures: pipelined idempotent producers lose nothing and never see a gap."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lacuna.agent.eager import start
from lacuna.agent.produce.gaps import Gaps
from lacuna.agent.produce.settings import ProduceSettings
from lacuna.controlplane.client import ControlPlaneUnavailable
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.controlplane.v1.cluster_pb2 import ClusterDelta
from lacuna.controlplane.v1.control_pb2 import Command, Reply
from lacuna.logstore.records.layout import Codec
from tests.agent.fetch.log import Log, Writer, open_log, records_of
from tests.doubles.clock import iterations

RETRIABLE = {6, 56, int(ErrorCode.REQUEST_TIMED_OUT)}
IN_FLIGHT = 5


def window_of(left: list[bytes]) -> list[bytes]:
    """Return the batches that a client has in flight at the same time."""
    return left[:IN_FLIGHT]


async def send_all(
    log: Log,
    writer: Writer,
    name: str,
    count: int,
    pauses: list[bool],
    codecs: Sequence[Codec] = (Codec.NONE,),
) -> None:
    """Act as a client: up to five batches are in flight, and all failed ones are sent again in order."""
    left = [
        writer.batch(b"%s-%d" % (name.encode(), number), codec=codecs[number % len(codecs)])
        for number in range(count)
    ]
    for _ in range(200):
        if not left:
            return
        window = []
        for index, batch in enumerate(window_of(left)):
            window.append(
                asyncio.ensure_future(log.produce(batch, transactional_id=writer.transactional_id))
            )
            await iterations(3 if pauses[index % len(pauses)] else 1)
        answers = await asyncio.gather(*window)
        codes = [answer.error_code for answer in answers]
        # A gap would be OUT_OF_ORDER_SEQUENCE_NUMBER: fatal to some clients, so it must not be.
        assert all(code == 0 or code in RETRIABLE for code in codes), codes
        # One behind a failed one is taken only where both are in the log already (a commit whose
        # reply was lost); anything else shows in the order of the log.
        left = [batch for batch, code in zip(window_of(left), codes, strict=True) if code] + left[
            IN_FLIGHT:
        ]
    raise AssertionError("the client never got through")


async def test_s12_a_late_batch_of_a_new_producer_does_not_get_in_before_the_failed_one() -> None:
    """S10 accepts any first sequence, so the agent holds the second batch back until the first has arrived."""
    async with open_log() as log:
        await log.create_topic("t")
        log.store.failing_sequences = {1}
        writer = await log.writer()
        first, second, third = (writer.batch(b"%d" % number) for number in range(3))
        assert (await log.produce(first)).error_code == 56
        assert (await log.produce(second)).error_code == 6
        assert (await log.produce(first)).base_offset == 0
        assert (await log.produce(second)).base_offset == 1
        assert (await log.produce(third)).base_offset == 2
        assert len(log.produce_service.flusher.gaps) == 0


async def test_a_producer_that_went_on_through_another_agent_is_let_in() -> None:
    """The control plane knows its sequences, so nothing is held back forever."""
    async with open_log() as log:
        await log.create_topic("t")
        log.store.failing_sequences = {1}
        writer = await log.writer()
        first, second, third = (writer.batch(b"%d" % number) for number in range(3))
        assert (await log.produce(first)).error_code == 56
        gaps, elsewhere = log.produce_service.flusher.gaps, Gaps(log.control)
        log.produce_service.flusher.gaps = elsewhere
        assert (await log.produce(first)).base_offset == 0
        log.produce_service.flusher.gaps = gaps
        assert (await log.produce(third)).error_code == 6
        assert (await log.produce(second)).base_offset == 1
        assert (await log.produce(third)).base_offset == 2
        assert len(gaps) == 0


async def test_who_was_fenced_meanwhile_hears_so_and_not_of_the_gap() -> None:
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer("id")
        first, missing, third = (writer.batch(b"%d" % number) for number in range(3))
        assert (await log.produce(first, transactional_id="id")).base_offset == 0
        log.store.failing_sequences = {2}
        assert (await log.produce(missing, transactional_id="id")).error_code == 56
        await log.writer("id")  # aborts, and takes the next epoch
        answer = await log.produce(third, transactional_id="id")
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert len(log.produce_service.flusher.gaps) == 0


async def test_s12_who_comes_with_the_session_does_not_overtake_those_who_wait_for_it() -> None:
    """The server begins a request on arrival, before the waiting ones have their turn."""
    async with open_log() as log:
        await log.create_topic("t")
        writer = await log.writer()
        cluster, offsets = log.control.cluster, list[int]()

        async def send(value: bytes) -> None:
            offsets.append((await log.produce(writer.batch(value))).base_offset)

        cluster.is_current = False
        tasks = [start(send(b"%d" % number), "waits") for number in range(2)]
        cluster.apply(ClusterDelta(version=cluster.version))
        tasks.append(start(send(b"2"), "comes"))
        await asyncio.gather(*filter(None, tasks))
        assert sorted(offsets) == [0, 1, 2]
        values = [value for _, value in records_of(await log.fetch(0))]
        assert values == [b"0", b"1", b"2"]


async def live(log: Log, lives: Sequence[int], pauses: list[bool]) -> None:
    """Run clients with one transactional id. Each but the last is killed with this many batches in flight."""
    in_flight = []
    for count in lives:
        killed = await log.writer("x")
        for number in range(count):
            in_flight.append(asyncio.ensure_future(killed.send(b"%d" % number)))
            await iterations(3 if pauses[number % len(pauses)] else 1)
    last = await log.writer("x")
    await send_all(log, last, "last", 8, pauses)
    codes = {answer.error_code for answer in await asyncio.gather(*in_flight)}
    assert codes <= {0, int(ErrorCode.INVALID_PRODUCER_EPOCH), *RETRIABLE}
    await last.end(committed=True)


def lose_some(log: Log, lost: set[int]) -> None:
    """Lose the commits with these numbers: even ones are accepted without a reply, odd ones are not accepted."""
    call, count = log.control.call, 0

    async def lossy(command: Command) -> Reply:
        nonlocal count
        if not command.HasField("commit_segment"):
            return await call(command)
        count += 1
        number = count
        if number in lost and number % 2:
            raise ControlPlaneUnavailable("not taken")
        reply = await call(command)
        if number in lost:
            raise ControlPlaneUnavailable("the reply was lost")
        return reply

    log.control.call = lossy  # type: ignore[method-assign]


async def check(
    failing_puts: set[int],
    lost: set[int],
    pauses: list[bool],
    codecs: list[Codec],
    flush_bytes: int,
    patience_ms: int,
) -> None:
    produce = ProduceSettings(max_flushes=3, flush_bytes=flush_bytes, commit_timeout_ms=patience_ms)
    async with open_log(produce=produce) as log:
        # Batches with another codec are recompressed.
        await log.create_topic("t", compression_type="zstd" if Codec.ZSTD in codecs else "producer")
        log.store.failing_sequences = failing_puts
        lose_some(log, lost)
        writers = [await log.writer() for _ in range(3)]
        await asyncio.gather(
            *(
                send_all(log, writer, name, 12, pauses, codecs)
                for writer, name in zip(writers, "abc", strict=True)
            )
        )
        values = [value for _, value in records_of(await log.fetch(0))]
        for name in "abc":
            own = [value for value in values if value and value.startswith(name.encode())]
            assert own == [b"%s-%d" % (name.encode(), number) for number in range(12)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    failing_puts=st.sets(st.integers(1, 25), max_size=8),
    lost=st.sets(st.integers(1, 25), max_size=4),
    pauses=st.lists(st.booleans(), min_size=1, max_size=5),
    codecs=st.lists(st.sampled_from([Codec.NONE, Codec.ZSTD]), min_size=1, max_size=5),
    flush_bytes=st.sampled_from([1, 200, 1 << 20]),
    patience_ms=st.sampled_from([1, 60_000]),
)
def test_s12_no_batch_is_lost_doubled_or_out_of_order(
    failing_puts: set[int],
    lost: set[int],
    pauses: list[bool],
    codecs: list[Codec],
    flush_bytes: int,
    patience_ms: int,
) -> None:
    asyncio.run(check(failing_puts, lost, pauses, codecs, flush_bytes, patience_ms))


async def check_lives(
    failing_puts: set[int], lost: set[int], pauses: list[bool], flush_bytes: int, lives: list[int]
) -> None:
    produce = ProduceSettings(max_flushes=3, flush_bytes=flush_bytes, commit_timeout_ms=60_000)
    async with open_log(produce=produce) as log:
        await log.create_topic("t")
        log.store.failing_sequences = failing_puts
        lose_some(log, lost)
        await live(log, lives, pauses)
        values = [value for _, value in records_of(await log.fetch(0))]
        assert values == [b"last-%d" % number for number in range(8)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    failing_puts=st.sets(st.integers(1, 15), max_size=6),
    lost=st.sets(st.integers(1, 15), max_size=3),
    pauses=st.lists(st.booleans(), min_size=1, max_size=5),
    flush_bytes=st.sampled_from([1, 200]),
    lives=st.lists(st.integers(1, IN_FLIGHT), min_size=1, max_size=3),
)
def test_s12_what_killed_clients_left_in_flight_is_no_gap_of_their_successors(
    failing_puts: set[int], lost: set[int], pauses: list[bool], flush_bytes: int, lives: list[int]
) -> None:
    asyncio.run(check_lives(failing_puts, lost, pauses, flush_bytes, lives))
