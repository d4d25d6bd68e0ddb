"""Runs the first commands in README.md, and its test, with an installed package: `python first_commands.py README.md`.

With `--bootstrap`, the cluster is already running, and `--lacuna` is the command that explains its topics.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from lacuna.testing import ProcessCluster

AT = "127.0.0.1:9092"


def first_commands(readme: str, bootstrap: str, lacuna: list[str]) -> None:
    """Write with the program in README, and compare what `explain` prints with what README shows."""
    program, test = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert AT in program
    subprocess.run([sys.executable, "-c", program.replace(AT, bootstrap)], check=True, timeout=60)
    ((options, shown),) = re.findall(
        r"^\$ lacuna (explain .*)\n((?:.+\n)+?)```", readme, re.MULTILINE
    )
    command = [*lacuna, *options.split(), "-b", bootstrap]
    ran = subprocess.run(command, check=True, timeout=60, stdout=subprocess.PIPE, text=True)
    assert ran.stdout == shown, f"README.md shows\n{shown}\nand the command printed\n{ran.stdout}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_readme.py").write_text(test)
        subprocess.run([sys.executable, "-m", "pytest", "-q", folder], check=True, timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("readme", type=Path)
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--lacuna", default=str(Path(sys.executable).with_name("lacuna")))
    options = parser.parse_args()
    readme, lacuna = options.readme.read_text(encoding="utf-8"), shlex.split(options.lacuna)
    if options.bootstrap:
        first_commands(readme, options.bootstrap, lacuna)
        return
    with ProcessCluster() as cluster:
        first_commands(readme, cluster.bootstrap, lacuna)


if __name__ == "__main__":
    main()
