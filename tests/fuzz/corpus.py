"""The kept inputs: for each target one file, with a line in hex for each input.

`python -m tests.fuzz.corpus TARGET FILE…` adds the contents of files, such as inputs that failed.
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
    """What a search calls an input."""
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def add(target: str, inputs: Iterable[bytes]) -> None:
    """Adds inputs, each once. The lines are in the order of the bytes, so that a change shows what is new."""
    lines = sorted({each.hex() for each in (*kept(target), *inputs)})
    (CORPUS / f"{target}.hex").write_text("".join(f"{line}\n" for line in lines))


def unpack(target: str, folder: Path) -> Path:
    """Writes each input into a file of its own, as a search reads them."""
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
