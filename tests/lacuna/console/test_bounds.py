"""Tests bounds on time, concurrent requests, and rows."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from lacuna.console import app, limits, site
from lacuna.console.site import Site
from lacuna.controlplane.v1.control_pb2 import Command
from lacuna.controlplane.v1.groups_pb2 import CommittedOffset, OffsetCommit
from lacuna.testing import Cluster
from tests.lacuna.console.conftest import SECONDS, served
from tests.lacuna.console.test_pages import plain


def test_requests_wait_for_their_turn_and_none_takes_for_ever(
    filled: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), asyncio.Event()

    async def slow(_site: Site, _request: Request) -> Response:
        begun.set()
        await may_end.wait()
        return PlainTextResponse("")

    async def let_it_end() -> None:
        may_end.set()

    slow_page = site.Page("/slow", slow, site.leaves_out)
    monkeypatch.setattr(app, "_PAGES", (*app._PAGES, slow_page))
    monkeypatch.setattr(limits, "REQUESTS", 1)
    with served(filled) as browser, ThreadPoolExecutor(1) as thread:
        with monkeypatch.context() as short:
            short.setattr(limits, "ANSWER_SECONDS", 0.1)
            answer = browser.get("/slow")
        assert answer.code == 503
        assert "Too slow" in answer.text
        begun.clear()
        first = thread.submit(browser.get, "/slow")
        assert begun.wait(SECONDS)
        with monkeypatch.context() as short:
            short.setattr(limits, "WAIT_SECONDS", 0.1)
            second = browser.get("/slow")
        assert second.code == 503
        assert "Busy" in second.text
        assert browser.get("/static/console.css").code == 200
        filled.run(let_it_end())
        assert first.result(SECONDS).code == 200
        assert browser.get("/").code == 200


def test_a_page_has_a_hundred_groups_and_counts_some_lags(
    lacuna_private_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = lacuna_private_cluster
    cluster.create_topic("orders", 3)
    monkeypatch.setattr(limits, "LAGS", 30)

    async def commit() -> None:
        control = cluster.embedded.control
        topic = control.cluster.topics_by_name["orders"]
        for number in range(250):
            offsets = [CommittedOffset(leader_epoch=-1) for _ in range(3)]
            for index, offset in enumerate(offsets):
                offset.partition.topic_id = topic.topic_id
                offset.partition.partition = index
            asked = OffsetCommit(group_id=f"g{number:03}", generation_id=-1, offsets=offsets)
            await control.call(Command(offset_commit=asked))

    cluster.run(commit())
    with served(cluster) as browser:
        text = browser.get("/groups").text
        assert text.count("<tr>") == 101
        assert "1 to 100 of 250 groups" in plain(text)
        assert "g009 Empty classic 3 0" in plain(text)
        assert "g010 Empty classic 3 \N{EN DASH}" in plain(text)
        assert browser.get("/groups?page=3").text.count("<tr>") == 51
        assert "201 to 250 of 250" in plain(browser.get("/groups?page=99999").text)
        assert browser.get("/groups?page=x").code == 400
        assert "10 groups" in plain(browser.get("/groups?q=g24").text)
