"""Files that a report goes to."""

import os
from pathlib import Path

from lacuna.cli.errors import fail


def check_report_file(option: str, file: Path | str | None) -> None:
    """Before the work, whose report would be lost at its end. None: there is none; "-": the output.

    Raises UserError where the file cannot be written.
    """
    if file is None or str(file) == "-":
        return
    path = Path(file)
    if path.is_dir():
        fail(f"{option} {path}: that is a folder: name a file in it")
    if not path.parent.is_dir():
        fail(f"{option} {path}: there is no folder {path.parent}: make it, or name another file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        fail(f"{option} {path}: it cannot be written: give us the right, or name another file")
