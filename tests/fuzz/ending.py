"""The line after the output of a target, with its name and exit code. Two processes share this format."""

from typing import Final

ENDED: Final = "== {} ended with {}"
