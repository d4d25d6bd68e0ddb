"""Measures takeovers with real processes: the leader fails repeatedly under load, and clients measure the pause.

    python -m tests.faults.takeovers --journal postgresql --times 50
    python -m tests.faults.takeovers --journal bucket --way stop
    python -m tests.faults.takeovers --way suspend --times 5    # for 20 s each; it must not answer when it wakes up

Clients of librdkafka, Java and Go write transactions throughout. For each takeover, the program prints the time until
the next leader led. For each kind of client, it prints the longest time without an answered commit, from the signal
that ended the leader to the first commit that was requested after its end. It then prints percentiles and violations in
the clients' histories. The exit code is 1 if there are violations.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final
from unittest import mock
from uuid import uuid4

from lacuna.controlplane.shared_service import ask_status
from lacuna.logstore.objects import bucket_url
from lacuna.operating.moto import CREDENTIALS, MotoServer
from lacuna.operating.stores import open_checked
from tests.postgresql import PostgresqlServer, binaries

from .asking import Asking
from .checked_load import Load
from .foreign import NEEDS, missing
from .processes import Deployment, Process, end_by_exception

WAYS: Final[dict[str, Callable[[Process], None]]] = {
    "kill": Process.kill,
    "stop": Process.stop,
    "suspend": Process.pause,
}
#: How long a leader is suspended.
SUSPENDED_SECONDS: Final = 20.0
#: The pause between two transactions of a client, so that the machine is not saturated.
PAUSE_SECONDS: Final = 0.03
STANDBY_SECONDS: Final = 60.0
#: The maximum lag of a standby that keeps up, since it reports its position every second.
STANDBY_RECORDS: Final = 500
#: After a longer pause, the control planes' output is printed to standard error.
LONG_SECONDS: Final = 5.0


@contextmanager
def deployment(kind: str, folder: Path, *options: str, database: str = "") -> Iterator[Deployment]:
    """Start two control planes with these options on a journal of this kind, and two agents.

    A PostgreSQL journal is in the database at this URL, or in one on a new server.
    """
    with ExitStack() as stack:
        if kind == "postgresql":
            if not database:
                server = PostgresqlServer(binaries() or "")
                stack.callback(server.stop)
                server.start()
                database = server.make_database("takeovers")
            store = f"file://{folder / 'objects'}"
            journal = [f"--journal={database}"]
        else:
            moto = stack.enter_context(MotoServer())
            stack.enter_context(mock.patch.dict(os.environ, CREDENTIALS))
            store = bucket_url(f"lacuna/{uuid4()}", endpoint=moto.endpoint)
            open_checked(store, create_bucket=True).close()
            journal = ["--journal=bucket", f"--store={store}"]
        made = Deployment(
            folder / "control",
            2,
            [f"--store={store}"],
            control_planes=2,
            journal=[*journal, *options],
        )
        yield stack.enter_context(made)


def await_standby(leader: Process) -> None:
    """Wait until a standby has replayed almost everything that the leader has appended."""
    deadline = time.monotonic() + STANDBY_SECONDS
    while True:
        status = asyncio.run(ask_status(leader.address))
        if status is not None and any(
            status.position - standby.position < STANDBY_RECORDS for standby in status.standbys
        ):
            return
        assert time.monotonic() < deadline, "there is no standby"


def led_at(process: Process) -> float:
    """Return the monotonic time at which this control plane last reported that it leads."""
    line = next(line for line in reversed(process.lines) if "leading in epoch" in line)
    said = datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").astimezone()
    return said.timestamp() - time.time() + time.monotonic()


def take_over(cluster: Deployment, load: Load, way: str) -> tuple[float, dict[str, float]]:
    """End the leader, and restart it.

    Returns the seconds until the next one led, and the longest time without a commit for each kind of client.
    """
    leader = cluster.leader()
    await_standby(leader)
    with Asking(leader.address) as asking:
        began = time.monotonic()
        WAYS[way](leader)
        ended = time.monotonic()
        load.await_commits(ended)
        led = led_at(cluster.leader()) - began
        if way == "suspend":
            time.sleep(max(0.0, began + SUSPENDED_SECONDS - time.monotonic()))
            leader.resume()
            await_standby(cluster.leader())
            assert asking.answered_late(ended) == [], "it answers under its old epoch"
        else:
            leader.start()
    return led, {
        kind: longest_pause(commits, began, ended) for kind, commits in load.commits().items()
    }


def longest_pause(commits: Sequence[tuple[float, float]], began: float, ended: float) -> float:
    """Return the longest time without an answer, from `began` until the first commit requested after `ended`."""
    answered = sorted(done for _, done in commits)
    first = min(done for asked, done in commits if asked >= ended)
    near = [began, *(done for done in answered if began < done <= first)]
    return max(after - before for before, after in pairwise(near))


def shown(name: str, durations: Sequence[float]) -> str:
    """Return a line with the percentiles of these durations in seconds."""
    found = sorted(durations)
    percentiles = (
        f"p{percent} {found[min(len(found) - 1, len(found) * percent // 100)]:.2f} s"
        for percent in (50, 90, 99)
    )
    return f"{name:12}{', '.join(percentiles)}\n"


def say(text: str) -> None:
    """Print immediately."""
    sys.stdout.write(text)
    sys.stdout.flush()


def explain(cluster: Deployment, number: int) -> None:
    """Print the last lines of the control planes."""
    for control in cluster.controls:
        lines = "\n".join(list(control.lines)[-12:])
        sys.stderr.write(f"{number}: {control.name} at {control.address}\n{lines}\n")


def measure(cluster: Deployment, journal: str, way: str, times: int) -> int:
    """End this many leaders, print the measurements, and return the exit code."""
    load = Load(cluster, list(NEEDS), PAUSE_SECONDS)
    leading: list[float] = []
    pauses: dict[str, list[float]] = {kind: [] for kind in load.commits()}
    say(f"{'':5}{'led':>10}{''.join(f'{kind:>12}' for kind in pauses)}\n")
    for number in range(1, times + 1):
        led, paused = take_over(cluster, load, way)
        leading.append(led)
        for kind, pause in paused.items():
            pauses[kind].append(pause)
        say(f"{number:5}{led:10.2f}{''.join(f'{pause:12.2f}' for pause in paused.values())}\n")
        if max(paused.values()) > LONG_SECONDS:
            explain(cluster, number)
    commits = sum(map(len, load.commits().values()))
    violations = load.violations()
    say(f"{journal}, {way}, {times} times; seconds until another one led:\n")
    say(shown("", leading))
    say("seconds without a commit:\n")
    for kind, durations in pauses.items():
        say(shown(kind, durations))
    average = os.getloadavg()[1]
    say(f"{commits} commits, {len(violations)} violations; load {average:.1f}\n")
    say("".join(f"{line}\n" for line in violations))
    return 1 if violations else 0


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.takeovers")
    parser.add_argument("--journal", choices=["postgresql", "bucket"], default="postgresql")
    parser.add_argument("--way", choices=list(WAYS), default="kill")
    parser.add_argument("--times", type=int, default=50)
    given = parser.parse_args()
    if programs := missing():
        parser.error(f"clients cannot be built without {', '.join(programs)}")
    end_by_exception()
    with (
        tempfile.TemporaryDirectory(prefix="lacuna-takeovers-") as folder,
        deployment(given.journal, Path(folder)) as cluster,
    ):
        return measure(cluster, given.journal, given.way, given.times)


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
