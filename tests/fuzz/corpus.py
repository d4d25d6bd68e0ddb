"""Stores the corpus in corpus.txt: each line has a target's name and one of its inputs in hex.

`python -m tests.fuzz.corpus TARGET FILE…` adds the contents of files, such as failing inputs.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

CORPUS = Path(__file__).with_suffix(".txt")


def kept(target: str) -> list[bytes]:
    """Return the stored inputs of a target."""
    return [bytes.fromhex(data) for owner, data in _lines() if owner == target]


def name(data: bytes) -> str:
    """Return the file name that a search uses for an input."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def add(target: str, inputs: Iterable[bytes]) -> None:
    """Add inputs, each once. The lines are sorted, so that a diff shows only new inputs."""
    lines = sorted({*_lines(), *((target, each.hex()) for each in inputs)})
    CORPUS.write_text("".join(f"{owner} {data}\n" for owner, data in lines))


def _lines() -> Iterator[tuple[str, str]]:
    for line in CORPUS.read_text().splitlines():
        owner, _, data = line.partition(" ")
        yield owner, data


def unpack(target: str, folder: Path) -> Path:
    """Write each input to a separate file, where a search reads them."""
    folder.mkdir()
    for data in kept(target):
        (folder / name(data)).write_bytes(data)
    return folder


def pack(target: str, folder: Path) -> None:
    add(target, (path.read_bytes() for path in folder.iterdir()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    add(arguments.target, (path.read_bytes() for path in arguments.files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
