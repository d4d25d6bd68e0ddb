"""An S3 service that counts its requests: moto's server in a separate process, behind a counter."""

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Self

from lacuna.logstore.segments.paths import JOURNAL_PREFIX
from lacuna.operating.moto import CREDENTIALS, one_write_at_a_time

BUCKET = "lacuna"
START_SECONDS = 60.0
STOP_SECONDS = 5.0

#: S3 bills by method, except that a GET of a bucket, recognized by its query, is billed as a listing.
PUT, GET, LIST, DELETE = "PUT", "GET", "LIST", "DELETE"
#: PUTs of the journal, which are also counted as PUT.
JOURNAL_PUT = "journal PUT"
_ASKED_AS = {"PUT": PUT, "POST": PUT, "GET": GET, "HEAD": GET, "DELETE": DELETE}


class CountedS3:
    """The service, as a context manager, at the URL `endpoint`. It ends with the process that started it.

    Each request is delayed by `delay_seconds`.
    """

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self.endpoint = ""
        spawn = multiprocessing.get_context("spawn")
        self._ours, self._theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(self._theirs, delay_seconds), daemon=True
        )

    def __enter__(self) -> Self:
        self._process.start()
        self._theirs.close()
        if not self._ours.poll(START_SECONDS):
            self._process.terminate()
            raise TimeoutError("moto's server did not start")
        self.endpoint = self._ours.recv()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ours.close()
        self._process.join(STOP_SECONDS)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()

    @property
    def url(self) -> str:
        """The store URL of the service's bucket."""
        return f"s3://{BUCKET}?endpoint={self.endpoint}"

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def counts(self) -> Counter[str]:
        """Returns the number of requests so far, by kind."""
        self._ours.send("counts")
        counts: Counter[str] = self._ours.recv()
        return counts


def use_credentials() -> None:
    """Sets arbitrary credentials in the environment if there are none; moto accepts any."""
    for name, value in CREDENTIALS.items():
        os.environ.setdefault(name, value)


def kind_of(method: str, query: str) -> str:
    """Returns the kind of request that S3 bills for this method and query."""
    if method == "GET" and "list-type" in query:
        return LIST
    return _ASKED_AS.get(method, method)


def _counting(
    application: Any, counts: Counter[str], delay_seconds: float
) -> Callable[..., Iterable[bytes]]:
    def counted(environ: Mapping[str, str], start_response: Any) -> Iterable[bytes]:
        kind = kind_of(environ["REQUEST_METHOD"], environ.get("QUERY_STRING", ""))
        counts[kind] += 1
        if kind == PUT and JOURNAL_PREFIX in environ["PATH_INFO"]:
            counts[JOURNAL_PUT] += 1
        time.sleep(delay_seconds)
        answer: Iterable[bytes] = application(environ, start_response)
        return answer

    return counted


def _serve(parent: Connection, delay_seconds: float) -> None:
    import logging
    import threading

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    counts: Counter[str] = Counter()
    moto = one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
    application = _counting(moto, counts, delay_seconds)
    server = make_server("127.0.0.1", 0, application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    parent.send(f"http://127.0.0.1:{server.server_port}")
    try:
        while parent.recv():
            parent.send(Counter(counts))
    except (EOFError, KeyboardInterrupt):  # the parent closed its end, or died
        server.shutdown()
