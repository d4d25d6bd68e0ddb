"""Measures takeovers with real processes: the leader goes again and again under load, and clients are asked how long.

    python -m tests.faults.takeovers --journal postgresql --times 50
    python -m tests.faults.takeovers --journal bucket --way stop

Prints for each leader the longest time in which no commit was answered, from when it was told to end until the first
commit that was asked for after it had ended; then percentiles, and what is wrong with the histories of the clients. The
exit code is 1 if anything is.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

from lacuna.moto import CREDENTIALS, MotoServer
from lacuna.stores import bucket_url, open_checked
from tests.postgresql import PostgresqlServer, binaries

from .checked_load import Load
from .processes import Deployment, Process

WAYS: dict[str, Callable[[Process], None]] = {"kill": Process.kill, "stop": Process.stop}


@contextmanager
def deployment(kind: str, folder: Path) -> Iterator[Deployment]:
    """Two control planes on a journal of a kind, and two agents."""
    with ExitStack() as stack:
        if kind == "postgresql":
            server = PostgresqlServer(binaries() or "")
            stack.callback(server.stop)
            server.start()
            store = f"file://{folder / 'objects'}"
            journal = [f"--journal={server.make_database('takeovers')}"]
        else:
            moto = stack.enter_context(MotoServer())
            os.environ.update(CREDENTIALS)
            store = bucket_url(f"lacuna/{uuid4()}", moto.endpoint)
            open_checked(store, create_bucket=True).close()
            journal = ["--journal=bucket", f"--store={store}"]
        made = Deployment(
            folder / "control", 2, [f"--store={store}"], control_planes=2, journal=journal
        )
        yield stack.enter_context(made)


def pause(cluster: Deployment, load: Load, end: Callable[[Process], None]) -> float:
    """Ends the leader, and returns the longest time in which no commit was answered, in seconds."""
    leader = cluster.leader()
    began = time.monotonic()
    end(leader)
    ended = time.monotonic()
    load.await_more()
    leader.start()
    answered = sorted(done for _, done in load.commits())
    first = min(done for asked, done in load.commits() if asked >= ended)
    near = [began, *(done for done in answered if began < done <= first)]
    return max(after - before for before, after in pairwise(near))


def main() -> int:
    """Measures, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.takeovers")
    parser.add_argument("--journal", choices=["postgresql", "bucket"], default="postgresql")
    parser.add_argument("--way", choices=list(WAYS), default="kill")
    parser.add_argument("--times", type=int, default=50)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="lacuna-takeovers-") as folder,
        deployment(given.journal, Path(folder)) as cluster,
    ):
        load = Load(cluster)
        pauses = []
        for number in range(1, given.times + 1):
            pauses.append(pause(cluster, load, WAYS[given.way]))
            sys.stdout.write(f"{number:3d}  {pauses[-1]:6.2f} s\n")
            sys.stdout.flush()
        violations = load.violations()
    pauses.sort()
    shown = ", ".join(
        f"p{percent} {pauses[min(len(pauses) - 1, len(pauses) * percent // 100)]:.2f} s"
        for percent in (50, 90, 99)
    )
    sys.stdout.write(
        f"{given.journal}, {given.way}, {len(pauses)} times: commits paused for {shown}\n"
        f"{len(load.commits())} commits, {len(violations)} violations\n"
    )
    sys.stdout.writelines(f"{line}\n" for line in violations)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
