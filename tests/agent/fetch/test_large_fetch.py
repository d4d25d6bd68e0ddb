"""A fetch of thousands of partitions yields the event loop to others between small steps."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from lacuna.agent.fetch import gather, service
from lacuna.agent.fetch.planner import Planner
from lacuna.agent.fetch.sessions import Interest, Watch
from lacuna.agent.limits import MOST_OF_PIECE
from lacuna.controlplane.client.subscriptions import Subscriptions
from lacuna.controlplane.watching import Watchers
from tests.agent.fetch.log import fetch_request, make_batch, open_log, produce_request, records_of
from tests.doubles.clock import until

PARTITIONS = 2_100


class Steps:
    """Counts calls of functions; `most` is the highest number of calls of each in one iteration of the event loop."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any) -> Any:
            self.calls[name] = self.calls.get(name, 0) + 1
            return function(*arguments)

        return count

    async def watch(self) -> None:
        while True:
            for name, calls in self.calls.items():
                self.most[name] = max(calls, self.most.get(name, 0))
            self.calls.clear()
            await asyncio.sleep(0)


@contextmanager
def steps_of(patch: pytest.MonkeyPatch, *functions: tuple[Any, str]) -> Iterator[Steps]:
    """Count calls while the body runs."""
    steps = Steps()
    with patch.context() as context:
        for owner, name in functions:
            context.setattr(owner, name, steps.counted(name, getattr(owner, name)))
        watching = asyncio.ensure_future(steps.watch())
        yield steps
        watching.cancel()


@pytest.mark.slow
async def test_a_huge_fetch_is_served_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_log(max_views=100) as log:
        await log.create_topic("t", partitions=PARTITIONS)
        batch = make_batch(b"a")
        await log.send(produce_request({("t", each): batch for each in range(PARTITIONS)}))
        request = fetch_request(
            {("t", partition): 0 for partition in range(PARTITIONS)}, partition_max_bytes=100
        )
        whose_rights: tuple[Any, Callable[[str, bytes], int]] = ("anybody", lambda *_: 0)
        with steps_of(
            monkeypatch,
            (Watch, "want"),
            (Subscriptions, "partition"),
            (Watchers, "_shown"),
            (Planner, "plan_one"),
            (gather, "_find"),
            (service, "_records"),
            (Interest, "is_news"),
            (Watch, "_unlisten"),
        ) as steps:
            answer = await log.fetch_service.fetch(request, 12, whose_rights)
            with suppress(TimeoutError):
                await until(lambda: len(log.control._subscriptions.keys()) <= 100)
        assert [records_of(each) for each in answer.responses[0].partitions] == [[(0, b"a")]] * (
            PARTITIONS
        )
        assert set(steps.most) == {
            "want", "partition", "_shown", "plan_one", "_find", "_records", "is_news", "_unlisten",
        }  # fmt: skip
        assert max(steps.most.values()) <= 2 * MOST_OF_PIECE
        assert len(log.control._subscriptions.keys()) == 100


@pytest.mark.slow
async def test_s21_a_session_that_ends_while_a_large_request_changes_it_is_gone() -> None:
    async with open_log() as log:
        await log.create_topic("t", partitions=PARTITIONS)
        offsets = {("t", partition): 0 for partition in range(PARTITIONS)}
        first = await log.ask(fetch_request({("t", 0): 0}, session_epoch=0))
        sessions = log.fetch_service.sessions
        more = fetch_request(offsets, session_id=first.session_id, session_epoch=1)
        asking = asyncio.ensure_future(log.ask(more))
        await asyncio.sleep(0)
        sessions.close()
        assert (await asking).error_code == 70  # FETCH_SESSION_ID_NOT_FOUND
        assert len(sessions) == 0
        again = await log.ask(fetch_request(offsets, session_epoch=0))
        assert again.session_id > 0


@pytest.mark.slow
async def test_s14_a_large_fetch_reads_nothing_that_its_client_may_not_read() -> None:
    """Permissions are also checked in steps."""
    async with open_log() as log:
        names = [f"t{number}" for number in range(MOST_OF_PIECE + 50)]
        for name in names:
            await log.create_topic(name)
        request = fetch_request(dict.fromkeys([(name, 0) for name in names], 0))
        denied = set(names[::2])
        answer = await log.fetch_service.fetch(
            request, 12, ("somebody", lambda name, _: 29 if name in denied else 0)
        )
        refused = {each.topic for each in answer.responses if each.partitions[0].error_code == 29}
        assert refused == denied
