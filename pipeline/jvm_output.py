"""What Spark's JVM and its Python workers write to the standard error output: kept back, and told where it counts."""

import os
import sys
import threading
from typing import Final

#: What our layout of log lines begins with (pipeline/session.py): these are shown.
SHOWN: Final = "spark: "
_KEPT_LINES: Final = 3
_ENDS_WITHIN: Final = 5.0


class JvmOutput:
    """A pipe for a process's standard error output: `descriptor` is for the process.

    Lines that begin with "spark: " are shown, the first others kept for `told`. It is read until the
    process and its children have closed it.
    """

    def __init__(self) -> None:
        reading, self.descriptor = os.pipe()
        self._first: list[str] = []
        self._thread = threading.Thread(
            target=self._read, args=(reading,), name="jvm-output", daemon=True
        )
        self._thread.start()

    def started(self) -> None:
        """The process holds its end now, or has ended; a second time does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def told(self) -> str:
        """What a process that has ended said first, in one line."""
        self._thread.join(_ENDS_WITHIN)
        return "; ".join(line.strip() for line in self._first if line.strip())

    def _read(self, descriptor: int) -> None:
        with open(descriptor, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if line.startswith(SHOWN):
                    sys.stderr.write(line)
                elif len(self._first) < _KEPT_LINES:
                    self._first.append(line)
