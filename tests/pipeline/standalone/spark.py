"""A standalone Spark cluster of real processes: a master and workers on 127.0.0.1."""

import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lacuna.pipeline.java import find_java, write_launcher

_START_SECONDS = 90.0
_STOP_SECONDS = 60.0
_KEPT_LINES = 100
_LOOK_SECONDS = 0.02
#: Below a worker's folder, and what an executor writes there when it begins a task.
_EXECUTOR_LOG = "app-*/*/stderr"
_RUNS_TASK = "Running task"


class StandaloneSpark:
    """A context manager. Each worker has one core, and a gigabyte for its executor.

    `spark_home` is the folder of the pyspark package. The processes write to `folder`.
    """

    def __init__(self, spark_home: Path, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._command = [str(spark_home / "bin" / "spark-class")]
        launcher = write_launcher(folder / "java", find_java())
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"},
            "JAVA_HOME": str(launcher),
            "SPARK_HOME": str(spark_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self._count = workers
        self._started = 0
        self._daemons: list[_Daemon] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            master = self._start(
                "master.Master", [], r"Starting Spark master at (spark://127\.0\.0\.1:\d+)"
            )
            self.url = master.value
            for _ in range(self._count):
                self.start_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        while self._daemons:
            self._daemons.pop().stop(signal.SIGTERM)

    def kill_worker_at_work(self) -> None:
        """Kill the last worker and its executors as soon as it is running a task, as if its machine were lost."""
        logs = self._folder / f"worker-{self._started}"
        before = set(logs.glob(_EXECUTOR_LOG))
        deadline = time.monotonic() + _START_SECONDS
        while not any(
            _RUNS_TASK in path.read_text()
            for path in logs.glob(_EXECUTOR_LOG)
            if path not in before
        ):
            assert time.monotonic() < deadline, f"no task runs on {logs.name}"
            time.sleep(_LOOK_SECONDS)
        self._daemons.pop().stop(signal.SIGKILL)

    def start_worker(self) -> None:
        self._started += 1
        work = self._folder / f"worker-{self._started}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url]
        self._start("worker.Worker", options, r"Successfully registered with (master)")

    def _start(self, name: str, options: Sequence[str], ready: str) -> "_Daemon":
        listen = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        command = [*self._command, f"org.apache.spark.deploy.{name}", *listen, *options]
        daemon = _Daemon(command, self._environment, ready)
        self._daemons.append(daemon)
        daemon.wait()
        return daemon


class _Daemon:
    """A process with its own process group, which includes its children."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], ready: str) -> None:
        self._ready = re.compile(ready)
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._told = threading.Event()
        self.value = ""
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self) -> None:
        """Wait until it reports that it is ready."""
        self._told.wait(_START_SECONDS)
        assert self.value, "\n".join(self._lines)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal: SIGKILL to the whole group, any other one to the process, which then ends its executors."""
        if number == signal.SIGKILL:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)
        try:
            self._process.wait(_STOP_SECONDS)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._reader.join(_STOP_SECONDS)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line.rstrip())
                if found := self._ready.search(line):
                    self.value = found.group(1)
                    self._told.set()
        self._told.set()
