"""Holds back what Spark's JVM and its Python workers write to standard error, and shows the lines that matter."""

import os
import sys
import threading
from typing import Final

#: The prefix of log lines in Lacuna's layout (pipeline/session.py), which are shown.
SHOWN: Final = "spark: "
_KEPT_LINES: Final = 3
_ENDS_WITHIN: Final = 5.0


class JvmOutput:
    """A pipe for the standard error of a process, which is given `descriptor` to write to.

    Lines that begin with "spark: " are shown; the first three others are kept for `told`. A thread reads the pipe until
    the process and its children have closed it.
    """

    def __init__(self) -> None:
        reading, self.descriptor = os.pipe()
        self._first: list[str] = []
        self._thread = threading.Thread(
            target=self._read, args=(reading,), name="jvm-output", daemon=True
        )
        self._thread.start()

    def started(self) -> None:
        """Closes this process's copy of `descriptor`, once the child has its own or has ended. A second call does
        nothing.
        """
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def told(self) -> str:
        """The first lines, joined into one, that an ended process wrote to its standard error."""
        self._thread.join(_ENDS_WITHIN)
        return "; ".join(line.strip() for line in self._first if line.strip())

    def _read(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if line.startswith(SHOWN):
                    sys.stderr.write(line)
                elif len(self._first) < _KEPT_LINES:
                    self._first.append(line)
