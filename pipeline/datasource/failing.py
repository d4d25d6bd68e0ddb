"""An error of ours in a process of Spark's: its message, and no traceback in front of it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from controlplane.client.errors import CommandRefused, ControlPlaneUnavailable
from logstore.objects import ObjectStoreError
from logstore.segments import CorruptSegmentError, ForeignStoreError
from pipeline.errors import PipelineError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

#: What is said in one line: the mistakes and mishaps that the message of the error explains.
EXPLAINED: Final = (
    PipelineError,
    ControlPlaneUnavailable,
    CommandRefused,
    ObjectStoreError,
    CorruptSegmentError,
    ForeignStoreError,
)


def one_message(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A method that Spark calls in a Python process: an explained error is shown as its message."""

    @wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with explained():
            return function(*args, **kwargs)

    return wrapped


@contextmanager
def explained() -> Iterator[None]:
    """The same for a block.

    Spark sends what traceback.format_exception gives, unless this variable is set, and ends the process
    after any error: so it is set when there is one, and for nobody else.
    """
    try:
        yield
    except EXPLAINED as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error.with_traceback(None) from None
