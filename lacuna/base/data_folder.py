"""The files in the data folder of a running `lacuna up`, in which other commands find its control plane and store."""

from pathlib import Path
from typing import Final

ADDRESS_NAME: Final = "control.address"
STORE_NAME: Final = "store.url"


def leave(folder: Path, name: str, text: str) -> None:
    """Writes `text` to the file `name` (ADDRESS_NAME or STORE_NAME) of a data folder, atomically.

    A concurrent reader sees the old content or the new, never an empty file.
    """
    written = folder / f".{name}"
    written.write_text(text)
    written.replace(folder / name)


def left(folder: Path, name: str) -> str:
    """Return the content of the file `name` of a data folder, or "" if it is missing or not text."""
    try:
        return (folder / name).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def not_running(folder: Path | str) -> str:
    """Return the error for a data folder without a running cluster."""
    return (
        f"no cluster is running on the data folder {folder}: start it with `lacuna up --data {folder}`, or name the "
        "address of a control plane with control=HOST:PORT (--control)"
    )
