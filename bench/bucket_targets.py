"""The same processes with their records in S3 or in a folder: a control plane, and two agents in different zones.

S3 is moto's server behind bench/slow_s3.py, which adds the latency of a cloud bucket.
"""

import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from bench import BenchError
from bench.counted_s3 import BUCKET, CountedS3
from bench.journal_targets import postgresql
from bench.lacuna import LacunaGrpc
from bench.slow_s3 import SlowS3
from lacuna.logstore.objects import bucket_url
from lacuna.operating.stores import open_checked
from tests.compat.harness.tools import free_port
from tests.postgresql import PostgresqlServer, binaries

#: The first two targets have their journal in PostgreSQL. The last one has everything in S3.
S3, FOLDER, JOURNAL_IN_S3 = "S3", "folder", "journal in S3"
#: One agent in each zone: clients of the first agent write, and clients of the second agent read.
AGENTS: Final = 2
ANSWER_SECONDS: Final = 10.0


class Places(LacunaGrpc):
    """A control plane and agents, each in its own zone, with the journal at `journal`, a URL or `bucket`.

    The records are in the store at `store_url` or, if that is empty, in a folder. `control_options` are for the control
    plane.
    """

    def __init__(
        self,
        label: str,
        journal: str,
        store_url: str = "",
        agents: int = AGENTS,
        options: Sequence[str] = (),
        control_options: Sequence[str] = (),
    ) -> None:
        super().__init__(options, label, agents, store_url)
        self._control_options = control_options
        self._journal = journal
        self._health = ""

    @property
    def journal(self) -> Sequence[str]:
        in_bucket = [f"--store={self.store}"] if self._journal == "bucket" else []
        own = [*self._control_options, f"--health={self._health}"]
        return [f"--journal={self._journal}", *in_bucket, *own]

    def options_of(self, number: int) -> Sequence[str]:
        return [*self._options, f"--zone=zone-{number}"]

    @property
    def control_pid(self) -> int:
        return self._processes[-1].pid

    @property
    def control(self) -> str:
        return self._processes[-1].value

    def metrics(self) -> Mapping[str, float]:
        """Returns those of the control plane's metrics that have no labels, by name."""
        address = f"http://{self._health}/metrics"
        with urllib.request.urlopen(address, timeout=ANSWER_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        named = (line.rsplit(" ", 1) for line in lines if "{" not in line and line[0] != "#")
        return {name: float(value) for name, value in named}

    def _run(self) -> None:
        self._health = f"127.0.0.1:{free_port()}"
        super()._run()


class Services:
    """The services that the targets share, once started: S3 with and without latency, and PostgreSQL."""

    def __init__(self, server: PostgresqlServer, service: CountedS3, slow: SlowS3) -> None:
        self._postgresql = server
        self.service, self.slow = service, slow
        self._stores = 0
        self._databases = 0
        open_checked(self.store_url(), create_bucket=True).close()

    @classmethod
    @contextmanager
    def started(cls) -> Iterator["Services"]:
        """Runs the services during the block. Raises BenchError if PostgreSQL is not installed."""
        if binaries() is None:
            raise BenchError("PostgreSQL is not installed: apt-get install postgresql")
        with postgresql() as server, CountedS3() as service:
            assert server is not None
            with SlowS3(service.endpoint, seed=1) as slow:
                yield cls(server, service, slow)

    def store_url(self) -> str:
        """Returns the URL of a new, empty store in S3 with latency."""
        self._stores += 1
        return bucket_url(f"{BUCKET}/store-{self._stores}", endpoint=self.slow.endpoint)

    def database(self) -> str:
        self._databases += 1
        return self._postgresql.make_database(f"bench_{self._databases}")

    @contextmanager
    def side_by_side(self) -> Iterator[list[Places]]:
        """Runs all three targets at the same time."""
        targets = [
            Places(S3, self.database(), self.store_url()),
            Places(FOLDER, self.database()),
            Places(JOURNAL_IN_S3, "bucket", self.store_url()),
        ]
        with ExitStack() as stack:
            yield [stack.enter_context(target) for target in targets]
