"""Progress on standard error: a bar on a terminal, lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from lacuna.cli.console import err
from lacuna.cli.units import show_size
from lacuna.pipeline.workers import Progress

#: The maximum width of a bar, and the minimum.
_BAR: Final = 40, 8
#: Columns reserved for the figures of a bar, so that they are never cut off.
_FIGURES: Final = 39


class Shown(Progress):
    """Progress as a command shows it. This base class shows nothing."""

    def end(self) -> None:
        """Removes the bar, so that output can follow. The next stage shows a new bar."""

    def hide(self) -> None:
        """Removes the bar until there is more progress, so that output can follow."""


class _Speed(ProgressColumn):
    """The speed in MiB/s, the unit that all commands use, instead of rich's MB/s."""

    def render(self, task: Task) -> Text:
        """Return the speed, such as 12.3 MiB/s, or nothing until there is progress."""
        speed = task.finished_speed or task.speed
        text = "" if speed is None else f"{show_size(int(speed))}/s"
        return Text(text, style="progress.data.speed")


class _Bar(Shown):
    """A one-line bar, shown from the first stage until `end`. A stage that begins once all work is done starts at 0."""

    def __init__(self, *columns: ProgressColumn) -> None:
        widest, narrowest = _BAR
        width = min(max(err.width // 4 - 7, narrowest), widest)
        self._most_text = max(err.width - width - _FIGURES, 1)
        # Otherwise, rich would redirect standard output to its console, which is standard error.
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(width),
            *columns,
            console=err,
            transient=True,
            redirect_stdout=False,
        )
        self._task = self._bars.add_task("", total=None)
        self._expected = self._done = 0

    def stage(self, text: str) -> None:
        if self._done >= self._expected:
            self._reset()
        self._bars.start()
        shown = Text(text)
        shown.truncate(self._most_text, overflow="ellipsis")
        self._bars.update(self._task, description=escape(shown.plain))

    def expect(self, amount: int) -> None:
        self._expected += amount
        self._bars.update(self._task, total=self._expected)

    def advance(self, amount: int) -> None:
        self._done += amount
        self._bars.start()
        self._bars.update(self._task, completed=self._done)

    def hide(self) -> None:
        self._bars.stop()

    def end(self) -> None:
        self._bars.stop()
        self._reset()

    def _reset(self) -> None:
        self._expected = self._done = 0
        self._bars.reset(self._task, total=None)


class _Lines(Shown):
    """Prints a line for each stage. If `expected` is given, also prints a line each time `expect` adds to the total."""

    def __init__(self, expected: Callable[[int], str] | None) -> None:
        self._expected = expected

    def stage(self, text: str) -> None:
        err.print(text, markup=False, soft_wrap=True)

    def expect(self, amount: int) -> None:
        if amount and self._expected is not None:
            self.stage(self._expected(amount))


def bytes_done(
    expected: Callable[[int], str] | None = None, *, has_lines: bool = True
) -> AbstractContextManager[Shown]:
    """Shows the number of bytes processed. Without a terminal, prints lines if `has_lines`."""
    columns = DownloadColumn(binary_units=True), _Speed(), TimeRemainingColumn()
    return _shown(_Lines(expected) if has_lines else Shown(), *columns)


def tasks_done() -> AbstractContextManager[Shown]:
    """Shows the number of completed tasks. Without a terminal, prints a line for each stage."""
    return _shown(_Lines(None), MofNCompleteColumn(), TimeElapsedColumn())


def offsets_done() -> AbstractContextManager[Shown]:
    """Shows the number of offsets processed, but only on a terminal."""
    return _shown(Shown(), MofNCompleteColumn(), TimeElapsedColumn())


@contextmanager
def _shown(without_terminal: Shown, *columns: ProgressColumn) -> Iterator[Shown]:
    progress = _Bar(*columns) if err.is_terminal else without_terminal
    try:
        yield progress
    finally:
        progress.end()
