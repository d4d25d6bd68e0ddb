"""Which URL opens which store."""

from pathlib import Path

import pytest

from lacuna.logstore.objects import DirectoryStore, MemoryStore, StoreMisconfiguredError, open_store
from lacuna.logstore.objects.s3 import READ_GAP, S3Store


def test_a_directory(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/with%20space")
    assert isinstance(store, DirectoryStore)
    store.put("k", [b"x"])
    assert (tmp_path / "with space" / "k").read_bytes() == b"x"


def test_memory_is_stamped_by_the_clock_that_is_handed_in() -> None:
    store = open_store("memory:", now_ms=lambda: 17)
    assert isinstance(store, MemoryStore)
    store.put("k", [b"x"])
    assert next(store.list()).modified_ms == 17
    store.close()


def test_a_bucket(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    store = open_store(f"s3://url-bucket/deep/prefix?endpoint={moto_endpoint}&region=us-east-1")
    assert isinstance(store, S3Store)
    store.create_bucket()
    store.put("k", [b"x"])
    whole = open_store(f"s3://url-bucket?endpoint={moto_endpoint}")
    assert [info.key for info in whole.list()] == ["deep/prefix/k"]


@pytest.mark.parametrize(
    "url",
    ["", "data", "/data", "file:", "file://host/dir", "memory://x", "s3:///x", "http://h/", "s3:b"],
)
def test_any_other_url_is_refused_with_the_forms_there_are(url: str) -> None:
    with pytest.raises(StoreMisconfiguredError, match="file:///directory, memory:, s3://bucket"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    ["file:///data/a#1", "file:///data/why?", "file:///data/a?b", "s3://bucket/a#1", "memory:?x"],
)
def test_no_part_of_a_name_is_left_out(url: str) -> None:
    """Or the data would lie in another directory than the one that was named."""
    with pytest.raises(StoreMisconfiguredError, match="write %3F and %23"):
        open_store(url)


def test_the_gap_of_an_endpoint_with_another_price() -> None:
    usual = open_store("s3://bucket?region=us-east-1")
    chosen = open_store("s3://bucket?region=us-east-1&read_gap=20000")
    assert (usual.read_gap, chosen.read_gap) == (READ_GAP, 20_000)
    with pytest.raises(
        StoreMisconfiguredError, match="read_gap is '64KiB': write a number of bytes"
    ):
        open_store("s3://bucket?region=us-east-1&read_gap=64KiB")


@pytest.mark.parametrize("name", ["endpoint", "region", "read_gap"])
def test_an_empty_option_is_refused(name: str) -> None:
    """What was to be another endpoint would be AWS."""
    with pytest.raises(StoreMisconfiguredError, match=f"the option {name} is empty"):
        open_store(f"s3://bucket/prefix?{name}=")


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(StoreMisconfiguredError, match="unknown option enpoint"):
        open_store("s3://bucket?enpoint=http://x")
