"""Files in the data folder of a running `lacuna up`, from which other commands learn where its control plane and store
are.
"""

from pathlib import Path
from typing import Final

ADDRESS_NAME: Final = "control.address"
STORE_NAME: Final = "store.url"


def leave(folder: Path, name: str, text: str) -> None:
    """Write `text` to the file `name` (ADDRESS_NAME or STORE_NAME) in a data folder, atomically."""
    written = folder / f".{name}"
    written.write_text(text)
    written.replace(folder / name)


def left(folder: Path, name: str) -> str:
    """Return the text of the file `name` in a data folder, or "" if the file is missing or not text."""
    try:
        return (folder / name).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def not_running(folder: Path | str) -> str:
    """Return the error message for a data folder without a running cluster."""
    return (
        f"no cluster is running on the data folder {folder}: start it with `lacuna up --data {folder}`, or specify the "
        "address of a control plane with control=HOST:PORT (--control)"
    )
