"""Searches for inputs that break a target, with atheris: `python -m tests.fuzz.search TARGET --seconds N`.

It starts from the corpus, with a different seed each time unless one is given, to find unknown failures. The search in
test_corpus.py is reproducible: it uses the same seed and number of runs each time. `--keep` adds a minimal set of
inputs that reached new lines to the corpus. A failing input stays in the folder that the message names. Add it with
tests/fuzz/corpus.py once the bug is fixed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.corpus import pack, unpack

TIMEOUT_SECONDS = 60  # by the clock: a machine with other work may halt any input for some seconds
MEMORY_MIB = 1024


def run(target: str, folders: list[Path], options: list[str]) -> subprocess.CompletedProcess[str]:
    """Run one process of atheris. Its output is in `stdout`."""
    command = [sys.executable, "-m", "tests.fuzz.searcher", target, *options, *map(str, folders)]
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},  # lines are reached in the same order each time
    )


def search(
    target: str, found: Path, *, seed: int, seconds: int = 0, runs: int = -1
) -> subprocess.CompletedProcess[str]:
    """Search for `seconds` (0: no limit) or `runs` (-1: no limit).

    New inputs go to the folder `found`, failing ones to `found`-failed-*. With a `seed` (0: a new one) and `runs` it
    does the same each time.
    """
    options = [
        f"-max_total_time={seconds}",
        f"-runs={runs}",
        f"-timeout={TIMEOUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-artifact_prefix={found}-failed-",
        f"-seed={seed}",
        "-print_final_stats=1",
    ]
    with tempfile.TemporaryDirectory() as folder:
        return run(target, [found, unpack(target, Path(folder, "kept"))], options)


def keep(target: str, found: Path) -> subprocess.CompletedProcess[str]:
    """Add the inputs in `found` that reach new lines to the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        kept = unpack(target, Path(folder, "kept"))
        ended = run(target, [kept, found], ["-merge=1"])
        pack(target, kept)
        return ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    found = Path(tempfile.mkdtemp(prefix=f"fuzz-{arguments.target}-")) / "found"
    found.mkdir()
    ended = search(arguments.target, found, seed=arguments.seed, seconds=arguments.seconds)
    sys.stdout.write(ended.stdout)
    sys.stdout.write(f"inputs: {found}\n")
    if arguments.keep and ended.returncode == 0:
        kept = keep(arguments.target, found)
        sys.stdout.write(kept.stdout.strip().splitlines()[-1] + "\n")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
