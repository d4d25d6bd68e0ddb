"""The benchmark runs from end to end and counts what it reads; its figures decide nothing here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKS = {
    "produce, none",
    "read_committed, tuned, lz4",
    "transactions of 10, 1 producer",
    "transactions of 10, 8 producers",
    "50 % aborted, none",
    "90 % aborted, lz4",
    "end of a 10,000-record aborted tail",
    "end to end at 100/s",
}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_section_gives_its_rows(tmp_path: Path) -> None:
    """S14, S17, S18: the sections check their record counts themselves and fail where one is off."""
    out = tmp_path / "last.json"
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--quick", f"--out={out}"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    results = json.loads(out.read_text())["results"]
    assert results.keys() >= WORKS
    assert all(row["median"] for row in results.values())
    assert results["90 % aborted, lz4"]["median"]["wire bytes/committed"] < 1024
