"""Stands in for the data source if this Python lacks packages. Using it raises an error that says so."""

import os
import sys
from typing import Any

from pyspark.sql.datasource import DataSource


def source_without(error: ImportError) -> type[DataSource]:
    """Returns a data source class that fails on first use. `error` says why the real one could not be imported."""
    message = (
        f"Spark's workers run {sys.executable}, which lacks a package that lacuna needs ({error}): activate "
        "the environment in which lacuna-log[spark] is installed, set PYSPARK_PYTHON to its python, or "
        "`import pyspark_lacuna` before you create the session"
    )

    class DefaultSource(DataSource):
        def __init__(self, options: Any) -> None:  # noqa: ARG002 - Spark's signature
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise ImportError(message)

        @classmethod
        def name(cls) -> str:
            return "lacuna"

    return DefaultSource
