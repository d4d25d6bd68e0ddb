"""The program of a Python client: `python -m tests.compat.harness.main --adapter FILE ... `, as the contract
describes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.compat.harness.adapter import Client, Security, Settings, UnsupportedError
from tests.compat.harness.scenarios import Answer, Run

SECONDS = 90.0

AGAIN_SECONDS = 5.0
MECHANISMS = {"scram": "SCRAM-SHA-512", "oauthbearer": "OAUTHBEARER"}


class Overdue(BaseException):
    """The time is up. No client or adapter catches this exception."""


def _alarm(signum: int, frame: object) -> None:
    raise Overdue(f"no end after {SECONDS:.0f} s")


def _load(path: Path) -> Callable[[Settings], Client]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    made: Callable[[Settings], Client] = module.Client
    return made


def _answer(name: str, scenario: Callable[[], Answer]) -> dict[str, Any]:
    """Run one scenario within its time limit."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS, AGAIN_SECONDS)
    try:
        records, facts = scenario()
    except UnsupportedError as error:
        return {"scenario": name, "unsupported": str(error)}
    except (Exception, Overdue) as error:  # whatever a client raises is its answer
        traceback.print_exc()
        said = f"{type(error).__name__}: {error}"
        return {"scenario": name, "ok": False, "error": said, "records": {}}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"scenario": name, "ok": True, "records": records, "facts": facts}


def _security(mechanism: str) -> Security:
    """Return the runner's settings for its secured listener."""
    names = ("COMPAT_CA", "COMPAT_USER", "COMPAT_PASSWORD", "COMPAT_TOKEN")
    return Security(mechanism, *(os.environ[name] for name in names))


def _tell(name: str, scenario: Callable[[], Answer]) -> None:
    sys.stdout.write(json.dumps(_answer(name, scenario)) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[], help="NAME=VALUE for the adapter")
    parser.add_argument("--legacy", action="store_true", help="it can speak message sets")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--workload", type=Path, required=True)
    parser.add_argument("--prefix", required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGALRM, _alarm)
    options = dict(option.split("=", 1) for option in arguments.option)
    make = _load(arguments.adapter.resolve())
    name = arguments.adapter.stem

    def client(legacy: bool = False) -> Client:
        return make(Settings(arguments.bootstrap, name, legacy, options))

    workload = json.loads(arguments.workload.read_text())
    old = (lambda: client(legacy=True)) if arguments.legacy else None
    run = Run(client(), workload, arguments.prefix, old)
    scenarios = (run.produce, run.transactions, run.holes, run.holes_inside)
    for scenario in (*scenarios, run.commit, run.group, run.eos, run.legacy):
        _tell(scenario.__name__, scenario)
    if secured := os.environ.get("COMPAT_SECURED"):
        for each, mechanism in MECHANISMS.items():
            settings = Settings(secured, name, options=options, security=_security(mechanism))
            _tell(each, Run(make(settings), workload, run.topic(each), None).eos)
    os._exit(0)  # a client's threads that do not end are not waited for


if __name__ == "__main__":
    main()
