"""A Python for commands and for Spark that is forked from a process that has already imported slow modules.

Spark starts a Python process for each query that it plans and for each stream that it reads, and these imports took
most of the tests' time. `forked_python` yields the path of a program that accepts `-m` or `-c` as Python does, and runs
the module or code in a fork of that process.
"""

import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

SLOW_TO_IMPORT = (
    "boto3",
    "lacuna.cli.app",
    "lacuna.cli.compact",
    "lacuna.cli.metadata",
    "lacuna.cli.verify",
    "lacuna.pipeline.audit.job",
    "lacuna.pipeline.compaction.job",
    "lacuna.pipeline.compaction.rewriting",
    "lacuna.pipeline.datasource.batch",
    "lacuna.pipeline.datasource.source",
    "lacuna.pipeline.datasource.stream",
    "lacuna.pipeline.export.tasks",
    "pandas",
    "pyarrow.parquet",
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "rich.table",
)
#: What Spark starts: it hands over its arguments, environment, folder and outputs, and ends as the fork does.
_PROGRAM = """\
#!{python} -IS
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
asked = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
files = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
server.sendmsg([len(asked).to_bytes(4, "big")], files)
server.sendall(asked)
sys.exit(int(server.recv(16) or 1))
"""


@contextmanager
def forked_python() -> Iterator[str]:
    """Yield the program's path while the forking process runs."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path, program = Path(folder, "forks"), Path(folder, "python")
        listening.bind(str(path))
        listening.listen()
        program.write_text(_PROGRAM.format(python=sys.executable, path=str(path)))
        program.chmod(0o700)
        with subprocess.Popen(
            [sys.executable, "-m", __name__, str(listening.fileno())],
            pass_fds=[listening.fileno()],
            # Threads would be missing in the forks.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        ) as server:
            try:
                yield str(program)
            finally:
                server.terminate()


def _serve(listening: socket.socket) -> None:
    for name in SLOW_TO_IMPORT:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how the keepers ended
    while True:
        connection, _ = listening.accept()
        if not os.fork():
            listening.close()
            _keep(connection)
        connection.close()


def _keep(connection: socket.socket) -> None:
    """Fork again, and report how the fork ended. Ends the fork if the program ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(connection, 4, 3)
    left, asked = int.from_bytes(size, "big"), b""
    while len(asked) < left:
        asked += connection.recv(left - len(asked))
    child = os.fork()
    if not child:
        connection.close()
        _become(files, *json.loads(asked))

    def end() -> None:
        if not connection.recv(1):
            os.kill(child, signal.SIGTERM)

    for file in (0, 1, 2, *files):  # who reads an output waits for the end of all that have it
        os.close(file)
    threading.Thread(target=end, daemon=True).start()
    _, status = os.waitpid(child, 0)
    connection.sendall(b"%d" % (os.waitstatus_to_exitcode(status) & 255))
    os._exit(0)


def _become(
    files: list[int], arguments: list[str], environment: dict[str, str], at: str
) -> NoReturn:
    """Behave like Python with these arguments. On exit, the process ends."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Files that are new, since the old ones know whether the server's were terminals.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(at)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [at, *(path for path in paths if path not in sys.path), *sys.path]
    kind, what, *rest = arguments
    sys.argv = [what, *rest]
    if kind == "-c":  # Spark asks for the version so
        exec(what, {"__name__": "__main__"})
    else:
        sys.modules.pop(what, None)
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
