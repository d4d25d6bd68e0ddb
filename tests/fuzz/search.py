"""Searches for inputs that break a target, with atheris: `python -m tests.fuzz.search TARGET --seconds N`.

It starts from the corpus, with a different seed each time unless one is given, to find unknown failures. The search in
test_corpus.py is reproducible: it uses the same seed and number of runs each time. `--keep` adds a minimal set of
inputs that reached new lines to the corpus. A failing input stays in the folder that the message names. Add it with
tests/fuzz/corpus.py once the bug is fixed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.fuzz.corpus import pack, unpack
from tests.fuzz.ending import ENDED

TIMEOUT_SECONDS = 60  # wall time: a busy machine may stall any input for some seconds
MEMORY_MIB = 1024


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one atheris process. Its output is in `stdout`."""
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz.searcher", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},  # lines are reached in the same order each time
    )


def search(
    target: str, found: Path, *, seed: int, seconds: int
) -> subprocess.CompletedProcess[str]:
    """Search for `seconds`. New inputs go to the folder `found`, failing ones to `found`-failed-*.

    With a `seed` of 0, the seed is random.
    """
    with tempfile.TemporaryDirectory() as folder:
        return run(*_job(target, found, Path(folder), seed, f"-max_total_time={seconds}"))


def search_each(
    targets: Mapping[str, int], folder: Path, *, seed: int
) -> dict[str, tuple[int, str]]:
    """Try the given number of inputs for each target in one process, reproducibly.

    Return the exit code and the output of each. New inputs go to folders below `folder`.
    """
    with tempfile.TemporaryDirectory() as kept:
        arguments: list[str] = []
        for target, runs in targets.items():
            found = folder / target
            found.mkdir()
            arguments += ["--", *_job(target, found, Path(kept), seed, f"-runs={runs}")]
        ended = run(*arguments)
    parts = re.split(re.escape(ENDED).replace(r"\{\}", "(.+)") + "\n", ended.stdout)
    outputs, names, codes = parts[:-1:3], parts[1::3], parts[2::3]
    return {
        name: (int(code), output) for name, code, output in zip(names, codes, outputs, strict=True)
    }


def _job(target: str, found: Path, folder: Path, seed: int, limit: str) -> list[str]:
    """Return the arguments for a search whose corpus is unpacked below `folder`."""
    options = [
        limit,
        f"-timeout={TIMEOUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-artifact_prefix={found}-failed-",
        f"-seed={seed}",
        "-print_final_stats=1",
    ]
    return [target, *options, str(found), str(unpack(target, folder / target))]


def keep(target: str, found: Path) -> subprocess.CompletedProcess[str]:
    """Add the inputs in `found` that reach new lines to the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        kept = unpack(target, Path(folder, "kept"))
        ended = run(target, "-merge=1", str(kept), str(found))
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
