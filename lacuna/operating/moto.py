"""S3 for experiments: a moto server in a separate process, with one bucket.

The server keeps objects in memory and loses them when it stops.
"""

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from io import BytesIO
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Self

from lacuna.base.errors import UserError
from lacuna.logstore.objects import ObjectStore, bucket_url

BUCKET = "lacuna"
#: moto accepts any credentials, but boto3 requires some.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "moto",
    "AWS_SECRET_ACCESS_KEY": "moto",
    "AWS_DEFAULT_REGION": "us-east-1",
}
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
#: The package that `moto[server]` adds. Without flask, moto's server cannot run.
_PACKAGES = ("moto", "flask")


class MotoServer:
    """moto's S3 server, as a context manager, at the URL `endpoint`. It ends with the process that started it.

    Raises UserError if moto is not installed.
    """

    def __init__(self) -> None:
        if any(find_spec(name) is None for name in _PACKAGES):
            raise UserError(
                "--moto needs moto, an in-memory S3 server: pip install 'lacuna-log[moto]'"
            )
        self.endpoint = ""
        # Spawned, not forked: the parent may run an event loop and threads.
        spawn = multiprocessing.get_context("spawn")
        self._ours, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
        self._theirs = theirs

    def __enter__(self) -> Self:
        # Ctrl-C reaches the whole process group, but the parent still uses the server and ends it by itself, so
        # the server ignores the signal. Starting the resource tracker unblocks the signal, so it is started first.
        resource_tracker.ensure_running()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        self._theirs.close()
        if not self._ours.poll(_START_SECONDS):
            self._process.terminate()
            raise TimeoutError("moto's server did not start")
        try:
            self.endpoint = self._ours.recv()
        except EOFError:
            raise ChildProcessError("moto's server exited before it was listening") from None
        return self

    @property
    def url(self) -> str:
        """The bucket's URL for `open_store`, which needs CREDENTIALS in the environment of its process."""
        region = CREDENTIALS["AWS_DEFAULT_REGION"]
        return bucket_url(BUCKET, endpoint=self.endpoint, region=region)

    def open_store(self) -> ObjectStore:
        """Opens the bucket, and creates it if it is missing."""
        # boto3 takes a third of a second to import
        from lacuna.logstore.objects.s3 import S3Store

        store = S3Store(
            BUCKET,
            endpoint=self.endpoint,
            region=CREDENTIALS["AWS_DEFAULT_REGION"],
            access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        store.create_bucket()
        return store

    def __exit__(self, *exception: object) -> None:
        self._ours.close()
        self._process.join(_STOP_SECONDS)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


def one_write_at_a_time(application: Any) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """Wrap moto's server so that, as on S3, only one of several conditional PUTs to a key succeeds.

    moto checks whether the key exists and writes it in two separate steps.
    """
    from werkzeug.wsgi import get_input_stream

    lock = threading.Lock()

    def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "PUT":
            return application(environ, start_response)  # type: ignore[no-any-return]
        # The body is read first, so that a client that stops in the middle does not delay others.
        environ["wsgi.input"] = BytesIO(get_input_stream(environ).read())
        with lock:
            return application(environ, start_response)  # type: ignore[no-any-return]

    return serve


def _serve(parent: Connection) -> None:
    import logging

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    application = one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        parent.send(f"http://127.0.0.1:{server.server_port}")
        parent.recv()
    except (EOFError, OSError):  # the parent closed its end, or died
        server.shutdown()
