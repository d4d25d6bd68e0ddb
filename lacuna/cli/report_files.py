"""Checks the files that reports are written to."""

import os
from pathlib import Path

from lacuna.cli.errors import fail


def check_report_file(option: str, file: Path | str | None) -> None:
    """Raises UserError if a report cannot be written to `file`. `option` names it in errors.

    Call this before the work, so that the report is not lost at the end. None (no report) and "-" (standard output)
    always pass.
    """
    if file is None or str(file) == "-":
        return
    path = Path(file)
    if path.is_dir():
        fail(f"{option} {path} is a folder: name a file in the folder")
    if not path.parent.is_dir():
        fail(
            f"{option} {path}: the folder {path.parent} does not exist: create it, or name another file"
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        fail(f"{option} {path} is not writable: change its permissions, or name another file")
