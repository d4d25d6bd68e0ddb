"""The open stores of a process."""

import shutil
from pathlib import Path

from pipeline.stores import shared_store


def test_a_store_whose_folder_is_gone_does_not_fail_the_next_one(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    lost = shared_store(f"file://{gone}")
    lost.put("a", [b"1"])
    shutil.rmtree(gone)
    opened = [shared_store(f"file://{tmp_path}/{number}") for number in range(9)]
    assert len({id(store) for store in opened}) == 9
    assert shared_store(f"file://{tmp_path}/8") is opened[8]
    assert shared_store(f"file://{gone}") is not lost
