"""Tests the open stores of a process."""

import shutil
from pathlib import Path

import pytest

from lacuna.pipeline.errors import PipelineError
from lacuna.pipeline.stores import shared_store


def test_a_store_whose_folder_is_gone_does_not_fail_the_next_one(tmp_path: Path) -> None:
    gone, *others = folders = [tmp_path / name for name in ("gone", *map(str, range(9)))]
    for folder in folders:
        folder.mkdir()
    lost = shared_store(f"file://{gone}")
    lost.put("a", [b"1"])
    shutil.rmtree(gone)
    opened = [shared_store(f"file://{folder}") for folder in others]
    assert len({id(store) for store in opened}) == 9
    assert shared_store(f"file://{others[8]}") is opened[8]
    gone.mkdir()
    assert shared_store(f"file://{gone}") is not lost


def test_a_folder_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "a folder"
    with pytest.raises(PipelineError, match=f"there is no folder {missing}"):
        shared_store(f"file://{tmp_path}/a%20folder")
    assert not missing.exists()
