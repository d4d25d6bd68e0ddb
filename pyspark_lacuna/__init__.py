"""Registers the data source. Spark finds this package by its name, so `spark.read.format("lacuna")` needs no setup.

If it is imported before the session is created, Spark's workers run this Python, unless PYSPARK_PYTHON specifies a
different one. Spark's own choice, the first `python3` on the PATH, may lack Lacuna's packages.
"""

import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

try:
    from lacuna.pipeline.datasource.source import LacunaDataSource as DefaultSource
except ImportError as error:
    from pyspark_lacuna.wrong_python import source_without

    DefaultSource = source_without(error)  # type: ignore[assignment,misc]

__all__ = ["DefaultSource"]
