"""Runs the probes: `python -m tests.clients.probes --bootstrap HOST:PORT [--only PREFIX] [--out FILE]`.

The same probes run against Apache Kafka (to record what it answers) and against Lacuna (test_probes.py).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import traceback
from collections.abc import Callable

from . import (  # noqa: F401  (each import registers its probes)
    probes_admin,
    probes_cluster,
    probes_configs,
    probes_consumer_groups,
    probes_end_txn,
    probes_fetch,
    probes_frames,
    probes_groups,
    probes_idempotence,
    probes_produce,
    probes_txn,
    probes_txn_offsets,
    probes_versions,
)
from .probing import PROBES, Outcome, Target

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "probes_kafka_4_4.json"


def run(
    name: str,
    bootstrap: str,
    advance: Callable[[int], None] | None = None,
    raise_epoch: Callable[[str, int], None] | None = None,
) -> Outcome:
    """Run a probe on a new connection; returns its outcome after a round trip through JSON.

    `advance` and `raise_epoch` spare the probe slow steps (see Target).
    """
    target = Target(bootstrap, advance=advance, raise_epoch=raise_epoch)
    try:
        return json.loads(json.dumps(PROBES[name](target)))
    finally:
        target.close()


def run_all(bootstrap: str, only: str = "") -> dict[str, Outcome]:
    """Run all probes whose name starts with `only`; the outcome of a probe that fails is its traceback."""
    out: dict[str, Outcome] = {}
    for name in sorted(PROBES):
        if not name.startswith(only):
            continue
        try:
            out[name] = run(name, bootstrap)
        except Exception:  # one broken probe must not hide the others
            out[name] = {"failed": traceback.format_exc(limit=-4).splitlines()}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    text = json.dumps(
        run_all(arguments.bootstrap, arguments.only),
        indent=1,
        sort_keys=True,
    )
    if arguments.out:
        arguments.out.write_text(text + "\n")
    else:
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
