"""The line after the output of a target, with its name and the exit code. It is shared by two processes."""

from typing import Final

ENDED: Final = "== {} ended with {}"
