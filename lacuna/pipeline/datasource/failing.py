"""Makes Spark show only the message of Lacuna's own errors, without a traceback."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from lacuna.pipeline.spark_errors import EXPLAINED

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def one_message(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorates a method that Spark calls in a Python process. Only the message is shown of errors in EXPLAINED."""

    @wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with explained():
            return function(*args, **kwargs)

    return wrapped


@contextmanager
def explained() -> Iterator[None]:
    """Makes Spark show only the message of errors in EXPLAINED that the block raises.

    Spark shows the traceback unless an environment variable is set. It ends the process after any error, so setting the
    variable when one is raised affects nothing else.
    """
    try:
        yield
    except EXPLAINED as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error.with_traceback(None) from None
