"""How second attempts at slow requests change S3's latency tail: the times of GETs and PUTs, and the added requests.

    python -m bench.tail_of_s3

The service is moto's behind bench/slow_s3.py. Both stores experience the same delays, in the order of their requests.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from time import perf_counter, process_time

from bench.clients import percentile
from bench.counted_s3 import BUCKET, CountedS3
from bench.slow_s3 import SlowS3
from lacuna.logstore.objects.latencies import Kind, Latencies
from lacuna.logstore.objects.s3 import S3Store

BYTES = 64 << 10
CALLS = 1000
AT_ONCE = 2
#: The number of first calls, from which the store learns when a request counts as slow.
WARM_UP_CALLS = 200


class _Unknown(Latencies):
    """Latencies that are never recorded, so that the store does not learn which requests are slow."""

    def add(self, kind: Kind, seconds: float) -> None:
        """Does nothing."""


def without_second_attempts(store: S3Store) -> S3Store:
    """Disables a store's second attempts at slow requests, and returns the store."""
    store._attempts.latencies = _Unknown()
    return store


def main() -> int:
    with ExitStack() as stack:
        service = stack.enter_context(CountedS3())
        stores = {}
        for name in ("without", "with"):
            slow = stack.enter_context(SlowS3(service.endpoint, seed=1))
            stores[name] = S3Store(
                BUCKET, name, endpoint=slow.endpoint, access_key_id="a", secret_access_key="b"
            )
            stack.callback(stores[name].close)
        stores["with"].create_bucket()
        without_second_attempts(stores["without"])
        print("            p50 ms  p95 ms  p99 ms  requests added, %  CPU µs a call")
        for name, store in stores.items():
            for operation in ("put", "get"):
                print(f"{operation.upper()} {name:8}{_measured(store, operation)}", flush=True)
    return 0


def _measured(store: S3Store, operation: str) -> str:
    body = os.urandom(BYTES)

    def call(number: int) -> float:
        started = perf_counter()
        if operation == "put":
            store.put(f"k{number}", [body])
        else:
            store.get(f"k{number}", 0, BYTES)
        return perf_counter() - started

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(call, range(WARM_UP_CALLS)))
        before, cpu = store.metrics.second_attempts.total(), process_time()
        took = list(threads.map(call, range(WARM_UP_CALLS, CALLS + WARM_UP_CALLS)))
    added = (store.metrics.second_attempts.total() - before) / CALLS * 100
    cpu_us = (process_time() - cpu) / CALLS * 1e6
    times = "  ".join(f"{percentile(took, at) * 1000:6.1f}" for at in (0.5, 0.95, 0.99))
    return f"{times}  {added:17.1f}  {cpu_us:13.0f}"


if __name__ == "__main__":
    sys.exit(main())
