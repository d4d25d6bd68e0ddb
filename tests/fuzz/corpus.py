"""Stores the corpus: one file per target, with one input in hex per line.

`python -m tests.fuzz.corpus TARGET FILE…` adds the contents of files, such as failed inputs.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def kept(target: str) -> list[bytes]:
    path = CORPUS / f"{target}.hex"
    return [*map(bytes.fromhex, path.read_text().splitlines())] if path.exists() else []


def name(data: bytes) -> str:
    """Return the name of an input in a search."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def add(target: str, inputs: Iterable[bytes]) -> None:
    """Add inputs, each once. The lines are in the order of the bytes, so that a diff shows only new inputs."""
    lines = sorted({each.hex() for each in (*kept(target), *inputs)})
    (CORPUS / f"{target}.hex").write_text("".join(f"{line}\n" for line in lines))


def unpack(target: str, folder: Path) -> Path:
    """Write each input to a separate file, as a search reads them."""
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
