"""Makes Spark show Lacuna's own errors as one message, without a traceback."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from lacuna.pipeline.spark_errors import EXPLAINED

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def one_message(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorates a method that Spark calls in a Python process. Only the messages of errors in EXPLAINED are shown."""

    @wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with explained():
            return function(*args, **kwargs)

    return wrapped


@contextmanager
def explained() -> Iterator[None]:
    """Makes Spark show only the message of an error in EXPLAINED that the block raises.

    Spark omits the traceback if an environment variable is set. Since Spark ends the process after any error, setting
    the variable when an error is raised affects nothing else.
    """
    try:
        yield
    except EXPLAINED as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error.with_traceback(None) from None
