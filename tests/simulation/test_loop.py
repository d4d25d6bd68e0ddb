"""Tests processes in one loop: asyncio's guarantees within each process, kills, pauses and time."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import End, Network


@pytest.fixture
def loop() -> SimulatedLoop:
    return SimulatedLoop(random.Random(1))  # type: ignore[abstract]


async def _count(process: Process, seen: list[tuple[str, int]]) -> None:
    for number in range(5):
        seen.append((process.name, number))
        await asyncio.sleep(0)


def test_processes_interleave_and_each_keeps_its_order(loop: SimulatedLoop) -> None:
    seen: list[tuple[str, int]] = []
    for name in ("a", "b", "c"):
        process = loop.process(name)
        process.start(_count(process, seen))
    loop.run(1.0)
    assert [number for name, number in seen if name == "b"] == [0, 1, 2, 3, 4]
    assert [name for name, _ in seen] != sorted(name for name, _ in seen)


def test_hours_pass_at_once(loop: SimulatedLoop) -> None:
    async def main() -> float:
        await asyncio.sleep(7_200)
        return loop.time()

    task = loop.process("sleeper").start(main())
    loop.run(10_000.0)
    assert 7_200 <= task.result() < 7_201


def test_nothing_of_a_killed_process_runs(loop: SimulatedLoop) -> None:
    ended = []

    async def main() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("cleaned up")

    process = loop.process("victim")
    task = process.start(main())
    loop.run(1.0)
    process.kill()
    loop.run(100.0)
    assert not task.done()
    assert ended == []


def test_what_comes_during_a_pause_waits(loop: SimulatedLoop) -> None:
    seen: list[float] = []
    process = loop.process("stopped")
    loop.call_in(process, 1.0, lambda: seen.append(loop.time()))
    process.pause()
    loop.run(5.0)
    assert seen == []
    process.go_on()
    loop.run(6.0)
    assert len(seen) == 1
    assert seen[0] >= 5.0


def test_an_executor_takes_time_and_only_so_many_at_once(loop: SimulatedLoop) -> None:
    running: list[str] = []

    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            running_loop = asyncio.get_running_loop()
            await asyncio.gather(
                *(running_loop.run_in_executor(executor, running.append, each) for each in "abc")
            )

    task = loop.process("worker").start(main())
    loop.run(10.0)
    assert task.done()
    assert running == ["a", "b", "c"]


def test_a_link_delivers_in_order_and_a_cut_holds_it_back(loop: SimulatedLoop) -> None:
    network = Network(loop, random.Random(2))
    got: list[int] = []
    server, client = loop.process("server"), loop.process("client")
    network.listen(server, "server", 1, lambda end, _: end.open(got.append, lambda _: None))

    async def main() -> None:
        end = await network.connect("server", 1)
        for number in range(100):
            end.send(number)
        network.cut("server", "client", 3.0)
        for number in range(100, 200):
            end.send(number)

    client.start(main())
    loop.run(2.0)
    assert got == list(range(100))
    loop.run(4.0)
    assert got == list(range(200))


@pytest.mark.parametrize("fault", ["kill", "power off"])
def test_a_peer_that_dies_is_noticed_at_once_or_late(loop: SimulatedLoop, fault: str) -> None:
    network = Network(loop, random.Random(3))
    server, client = loop.process("server"), loop.process("client")
    network.listen(server, "server", 1, lambda end, _: end.open(lambda _: None, lambda _: None))
    broken: list[float] = []

    async def main() -> None:
        end: End = await network.connect("server", 1)
        end.open(lambda _: None, lambda _: broken.append(loop.time()))

    client.start(main())
    loop.run(1.0)
    if fault == "power off":
        network.power_off(server)
        server.kill()
    else:
        server.on_killed.append(lambda: network.close_all(server))
        server.kill()
    loop.run(30.0)
    assert len(broken) == 1
    assert (broken[0] < 1.1) == (fault == "kill")
