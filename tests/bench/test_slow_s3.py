"""The slow S3: its delays, and requests and answers that it passes on unchanged."""

import asyncio
import random
from statistics import quantiles

import pytest

from bench.counted_s3 import GET, LIST, PUT
from bench.slow_s3 import LATENCIES, Proxy, SlowS3, Times
from lacuna.logstore.objects.s3 import S3Store
from tests.shared_moto import fresh_bucket, moto_endpoint

__all__ = ["moto_endpoint"]


def test_times_depend_on_the_seed_and_on_the_requests_of_the_same_kind_only() -> None:
    alone, mixed, other = Times(7), Times(7), Times(8)
    gets = [alone.next(GET) for _ in range(5)]
    for seconds in gets:
        mixed.next(PUT)
        assert mixed.next(GET) == seconds
    assert other.next(GET) != gets[0]
    assert other.next("PATCH") == 0.0


@pytest.mark.parametrize(("kind", "p50", "p99"), [(PUT, 0.04, 0.2), (GET, 0.015, 0.1)])
def test_times_have_the_percentiles_of_their_kind(kind: str, p50: float, p99: float) -> None:
    randomness = random.Random(1)
    cuts = quantiles((LATENCIES[kind].draw(randomness) for _ in range(50_000)), n=100)
    assert cuts[49] == pytest.approx(p50, rel=0.03)
    assert cuts[98] == pytest.approx(p99, rel=0.06)


def test_a_request_reaches_the_service_late_in_its_time() -> None:
    """On one connection: a PUT with a body, then a GET with an answer in chunks."""
    slept: list[float] = []
    received: list[bytes] = []
    put = b"PUT /b/k HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    get = b"GET /b?list-type=2 HTTP/1.1\r\nConnection: close\r\n\r\n"
    answers = {
        put: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        get: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
    }

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request in answers:
            received.append(await reader.readexactly(len(request)))
            assert len(slept) == 2 * len(received) - 1
            writer.write(answers[request])
        await reader.read()
        writer.close()

    async def run() -> bytes:
        service = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = service.sockets[0].getsockname()[1]
        kinds = {PUT: 1000.0, LIST: 2000.0}
        proxy = Proxy("127.0.0.1", port, kinds.__getitem__, sleep)
        slow = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        async with service, slow:
            reader, writer = await asyncio.open_connection(*slow.sockets[0].getsockname())
            writer.write(put + get)
            answered = await reader.read()
            writer.close()
        return answered

    assert asyncio.run(run()) == b"".join(answers.values())
    assert received == list(answers)
    assert slept[::2] == [900.0, 1800.0]
    assert 900 < slept[1] <= 1000
    assert 1900 < slept[3] <= 2000


@pytest.mark.slow
def test_a_store_works_through_the_command(moto_endpoint: str) -> None:
    body = bytes(range(256)) * 4096
    with SlowS3(moto_endpoint, seed=1) as slow:
        store = S3Store(
            fresh_bucket(), endpoint=slow.endpoint, access_key_id="a", secret_access_key="b"
        )
        store.create_bucket()
        store.put("k", [body])
        assert store.get_all("k") == body
        assert [each.key for each in store.list()] == ["k"]
        assert store.size("k") == len(body)
        store.delete(["k"])
        store.close()
