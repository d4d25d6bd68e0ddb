"""Replaces the data source if Python lacks packages that it needs. Any use raises an error with the reason."""

import os
import sys
from typing import Any

from pyspark.sql.datasource import DataSource


def source_without(error: ImportError) -> type[DataSource]:
    """A data source class that fails on first use. `error` is the reason why the real class could not be imported."""
    message = (
        f"Spark's workers run {sys.executable}, which lacks something lacuna needs ({error}): activate "
        "the environment in which lacuna-log[spark] is installed, set PYSPARK_PYTHON to its python, or "
        "`import pyspark_lacuna` before you create the session"
    )

    class DefaultSource(DataSource):
        """Replaces LacunaDataSource, and raises ImportError."""

        def __init__(self, options: Any) -> None:  # noqa: ARG002 - Spark's signature
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise ImportError(message)

        @classmethod
        def name(cls) -> str:
            return "lacuna"

    return DefaultSource
