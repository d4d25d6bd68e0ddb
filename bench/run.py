"""Runs the workload and prints its table: `python bench/run.py`.

Starts `lacuna up` on a folder that is thrown away (or measures `--bootstrap`, with `--server-pid` for its
CPU). Client: librdkafka; medians of the runs. A figure under much of other people's load ("others %")
says little: run again.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.clients import Target, Topics
from bench.sections import FULL, QUICK, SECTIONS, Row
from lacuna.testing import ProcessCluster


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sections", default=",".join(SECTIONS), help="comma-separated")
    parser.add_argument("--quick", action="store_true", help="a smoke test in about a minute")
    parser.add_argument("--bootstrap", help="measure this server instead of starting one")
    parser.add_argument("--server-pid", type=int, default=0, help="whose CPU is counted")
    parser.add_argument("--label", default="lacuna")
    parser.add_argument("--out", type=Path, default=Path("bench/out/last.json"))
    arguments = parser.parse_args()
    unknown = set(arguments.sections.split(",")) - SECTIONS.keys()
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if arguments.bootstrap:
        rows = run(Target(arguments.bootstrap, arguments.server_pid, arguments.label), arguments)
    else:
        with (
            tempfile.TemporaryDirectory(prefix="lacuna-bench-") as folder,
            ProcessCluster(Path(folder)) as cluster,
        ):
            rows = run(Target(cluster.bootstrap, cluster.pid, arguments.label), arguments)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    result = {row.work: {"median": row.medians(), "runs": row.runs} for row in rows}
    arguments.out.write_text(json.dumps({"label": arguments.label, "results": result}, indent=1))


def run(target: Target, arguments: argparse.Namespace) -> list[Row]:
    """All sections in turn; a row is printed as soon as it is there."""
    topics = Topics(target)
    rows = []
    for name in arguments.sections.split(","):
        for row in SECTIONS[name](target, topics, QUICK if arguments.quick else FULL):
            rows.append(row)
            figures = "  ".join(f"{key} {value:,.2f}" for key, value in row.medians().items())
            print(f"{target.label:>8} | {row.work:<38} | {figures}", flush=True)
    return rows


if __name__ == "__main__":
    main()
