"""A Kafka server that does nothing but answer requests: `python -m bench.bare_server`.

It uses the same event loop, sockets and codec as agents, but keeps batches in memory as received, validates nothing,
and supports no transactions. Its rates are therefore the highest that this client, these sockets and a server in Python
can achieve.

Prints `bootstrap: HOST:PORT`, and exits when its standard input is closed.
"""

import asyncio
import os
import signal
import struct
import sys
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

import uvloop

from lacuna.agent.connection import SCRATCH_BYTES, FrameReader, RequestFrame, answer_buffers
from lacuna.agent.registry import response_header_version
from lacuna.controlplane.shared.errors import ErrorCode
from lacuna.logstore.records.layout import HEADER
from lacuna.wire.layout import Buffer, Message
from lacuna.wire.messages import cluster, fetch, groups, produce, topics, transactions
from tests.messages import RESPONSES

_NODE: Final = 1
_MAX_REQUEST_BYTES: Final = 100 << 20
_MOST_BYTES: Final = 12 << 30
_LAST_OFFSET_DELTA: Final = 6  # its index among the fields of a batch header
_LATEST: Final = -1
_INT64: Final = struct.Struct(">q")


class _Api(NamedTuple):
    request: Message[Any]
    last_version: int
    answer: Callable[[Any], Any]


class Log:
    """A partition's batches, in memory; `bytes` is their total size."""

    def __init__(self) -> None:
        self.end = 0
        self.bytes = 0
        self._bases: list[int] = []
        self._batches: list[bytearray] = []
        self.waiting: list[Callable[[], None]] = []

    def append(self, batch: Buffer) -> int:
        base, copy = self.end, bytearray(batch)
        _INT64.pack_into(copy, 0, base)
        self._bases.append(base)
        self._batches.append(copy)
        self.bytes += len(copy)
        self.end += HEADER.unpack_from(copy)[_LAST_OFFSET_DELTA] + 1
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()
        return base

    def read(self, offset: int, most: int) -> list[bytearray]:
        """Returns the batches from an offset on: up to `most` bytes, but at least one batch if there are any."""
        index = (
            max(bisect_right(self._bases, offset) - 1, 0) if offset < self.end else len(self._bases)
        )
        read: list[bytearray] = []
        while index < len(self._batches):
            most -= len(self._batches[index])
            if read and most < 0:
                break
            read.append(self._batches[index])
            index += 1
        return read


class Server:
    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.port = 0
        self.topics: dict[str, list[Log]] = {}
        self._bytes = 0
        self._last_producer_id = 0
        served = (
            _Api(produce.PRODUCE_REQUEST, 9, self._produce),
            _Api(fetch.FETCH_REQUEST, 11, self._fetch),
            _Api(fetch.LIST_OFFSETS_REQUEST, 5, self._offsets),
            _Api(topics.METADATA_REQUEST, 9, self._metadata),
            _Api(groups.FIND_COORDINATOR_REQUEST, 2, self._coordinator),
            _Api(cluster.API_VERSIONS_REQUEST, 3, self._versions),
            _Api(topics.CREATE_TOPICS_REQUEST, 5, self._create),
            _Api(topics.DELETE_TOPICS_REQUEST, 4, self._delete),
            _Api(transactions.INIT_PRODUCER_ID_REQUEST, 4, self._producer),
            _Api(transactions.ADD_PARTITIONS_TO_TXN_REQUEST, 3, self._add),
            _Api(transactions.END_TXN_REQUEST, 3, lambda _: transactions.EndTxnResponse()),
        )
        self.apis = {each.request.api_key: each for each in served}

    def takes(self, api_key: int, version: int) -> bool:
        return api_key in self.apis and version <= self.apis[api_key].last_version

    def logs(self, request: fetch.FetchRequest) -> list[tuple[fetch.FetchPartition, Log]]:
        return [
            (asked, self.topics[topic.topic][asked.partition])
            for topic in request.topics
            for asked in topic.partitions
        ]

    def _fetch(self, request: fetch.FetchRequest) -> fetch.FetchResponse:
        left = request.max_bytes
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                log = self.topics[topic.topic][asked.partition]
                records = (
                    log.read(asked.fetch_offset, min(left, asked.partition_max_bytes))
                    if left > 0
                    else []
                )
                left -= sum(map(len, records))
                partitions.append(
                    fetch.PartitionData(asked.partition, 0, log.end, log.end, 0, records=records)
                )
            topics.append(fetch.FetchableTopicResponse(topic.topic, partitions=partitions))
        return fetch.FetchResponse(responses=topics)

    def _produce(self, request: produce.ProduceRequest) -> produce.ProduceResponse:
        return produce.ProduceResponse(
            [
                produce.TopicProduceResponse(
                    topic.name,
                    partition_responses=[
                        self._append(self.topics[topic.name][each.index_], each)
                        for each in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def _append(
        self, log: Log, sent: produce.PartitionProduceData
    ) -> produce.PartitionProduceResponse:
        assert sent.records is not None
        self._bytes += len(sent.records)
        if self._bytes > _MOST_BYTES:
            return produce.PartitionProduceResponse(sent.index_, ErrorCode.KAFKA_STORAGE_ERROR, -1)
        return produce.PartitionProduceResponse(sent.index_, 0, log.append(sent.records))

    def _offsets(self, request: fetch.ListOffsetsRequest) -> fetch.ListOffsetsResponse:
        return fetch.ListOffsetsResponse(
            topics=[
                fetch.ListOffsetsTopicResponse(
                    topic.name,
                    [
                        fetch.ListOffsetsPartitionResponse(
                            each.partition_index,
                            offset=self.topics[topic.name][each.partition_index].end
                            if each.timestamp == _LATEST
                            else 0,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _metadata(self, request: topics.MetadataRequest) -> topics.MetadataResponse:
        names = (
            list(self.topics) if request.topics is None else [each.name for each in request.topics]
        )
        return topics.MetadataResponse(
            brokers=[topics.MetadataResponseBroker(_NODE, "127.0.0.1", self.port)],
            cluster_id="bare",
            controller_id=_NODE,
            topics=[self._described(cast(str, name)) for name in names],
        )

    def _described(self, name: str) -> topics.MetadataResponseTopic:
        logs = self.topics.get(name)
        if logs is None:
            return topics.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        return topics.MetadataResponseTopic(
            0,
            name,
            partitions=[
                topics.MetadataResponsePartition(0, index, _NODE, 0, (_NODE,), (_NODE,))
                for index in range(len(logs))
            ],
        )

    def _coordinator(self, _: groups.FindCoordinatorRequest) -> groups.FindCoordinatorResponse:
        return groups.FindCoordinatorResponse(node_id=_NODE, host="127.0.0.1", port=self.port)

    def _versions(self, _: cluster.ApiVersionsRequest) -> cluster.ApiVersionsResponse:
        return cluster.ApiVersionsResponse(
            api_keys=[
                cluster.ApiVersion(key, api.request.versions[0], api.last_version)
                for key, api in self.apis.items()
            ]
        )

    def _create(self, request: topics.CreateTopicsRequest) -> topics.CreateTopicsResponse:
        for topic in request.topics:
            self.topics[topic.name] = [Log() for _ in range(topic.num_partitions)]
        return topics.CreateTopicsResponse(
            topics=[topics.CreatableTopicResult(topic.name) for topic in request.topics]
        )

    def _delete(self, request: topics.DeleteTopicsRequest) -> topics.DeleteTopicsResponse:
        for name in request.topic_names:
            self.topics.pop(name, None)
        self._bytes = sum(log.bytes for logs in self.topics.values() for log in logs)
        return topics.DeleteTopicsResponse(
            responses=[topics.DeletableTopicResult(name) for name in request.topic_names]
        )

    def _producer(
        self, _: transactions.InitProducerIdRequest
    ) -> transactions.InitProducerIdResponse:
        self._last_producer_id += 1
        return transactions.InitProducerIdResponse(producer_id=self._last_producer_id)

    def _add(
        self, request: transactions.AddPartitionsToTxnRequest
    ) -> transactions.AddPartitionsToTxnResponse:
        return transactions.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                transactions.AddPartitionsToTxnTopicResult(
                    topic.name,
                    [
                        transactions.AddPartitionsToTxnPartitionResult(each)
                        for each in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )


class Connection(asyncio.BufferedProtocol):
    """Answers requests in order. A Fetch from an empty log waits, and so do the requests after it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._reader = FrameReader(_MAX_REQUEST_BYTES, server.scratch, server.takes)
        self._frames: deque[RequestFrame] = deque()
        self._wait: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Answers all complete requests with a single write."""
        self._frames += self._reader.received(nbytes)
        if self._wait is None:
            self._go_on(may_wait=True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._wait is not None:
            self._wait.cancel()
        self._frames.clear()

    def _go_on(self, may_wait: bool) -> None:
        answers: list[Buffer] = []
        while self._frames:
            frame = self._frames[0]
            api = self._server.apis[frame.api_key]
            request = api.request.read(frame.body, frame.api_version)
            if may_wait and isinstance(request, fetch.FetchRequest) and self._waits(request):
                break
            may_wait = True
            self._frames.popleft()
            body = RESPONSES[frame.api_key].buffers(api.answer(request), frame.api_version)
            header = response_header_version(frame.api_key, frame.api_version)
            answers += answer_buffers(frame.correlation_id, header, body)
        if answers:
            self._transport.writelines(answers)

    def _waits(self, request: fetch.FetchRequest) -> bool:
        logs = self._server.logs(request)
        if any(asked.fetch_offset < log.end for asked, log in logs):
            return False
        loop = asyncio.get_running_loop()
        self._wait = loop.call_later(request.max_wait_ms / 1000, self._wake)
        for _, log in logs:
            log.waiting.append(self._wake)
        return True

    def _wake(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
            self._go_on(may_wait=False)


async def _main() -> None:
    loop = asyncio.get_running_loop()
    server = Server()
    listener = await loop.create_server(lambda: Connection(server), "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    print(f"bootstrap: 127.0.0.1:{server.port}", flush=True)
    await listener.serve_forever()


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    # A shell that starts the benchmark in the background makes the benchmark, and so this process, ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        uvloop.run(_main())
