"""Tests the message for Spark workers whose Python lacks our packages."""

import os
import subprocess
import sys


def ran(code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**kept, **environment}
    )
    return done.stdout.strip()


def test_the_source_says_what_is_missing_and_what_to_do() -> None:
    said = ran(
        "import sys; sys.modules['google.protobuf'] = None\n"
        "from pyspark_lacuna import DefaultSource\n"
        "assert DefaultSource.name() == 'lacuna'\n"
        "try: DefaultSource({})\n"
        "except ImportError as error: print(error)"
    )
    assert said.startswith(
        f"Spark's workers run {sys.executable}, which lacks something lacuna needs"
    )
    assert "google.protobuf" in said
    assert "activate the environment" in said


def test_imported_first_it_names_this_python() -> None:
    code = "import os, pyspark_lacuna; print(os.environ['PYSPARK_PYTHON'])"
    assert ran(code) == sys.executable
    assert ran(code, PYSPARK_PYTHON="python3.99") == "python3.99"
