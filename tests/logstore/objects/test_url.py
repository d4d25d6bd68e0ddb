"""Tests which URL opens which store."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lacuna.logstore.objects import (
    DirectoryStore,
    MemoryStore,
    StoreMisconfiguredError,
    check_url,
    open_conditional_store,
    open_store,
)
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore, EncryptedStore
from lacuna.logstore.objects.s3 import READ_GAP, S3Store
from lacuna.logstore.objects.url import FORMS, with_keys, with_options
from lacuna.logstore.segments.paths import CLUSTER_MARKER_KEY
from tests.doubles.keys import write_keys


def test_a_directory(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/with%20space")
    assert isinstance(store, DirectoryStore)
    store.put("k", [b"x"])
    assert (tmp_path / "with space" / "k").read_bytes() == b"x"


@pytest.mark.parametrize("command", ["up", "agent", "controlplane"])
def test_a_directory_needs_no_boto3(tmp_path: Path, command: str) -> None:
    """boto3 takes a third of a second to import, and a command on a folder does not wait for it."""
    script = (
        "import sys\n"
        f"import lacuna.cli.{command}\n"
        "from lacuna.operating.stores import open_checked\n"
        f"open_checked('file://{tmp_path}/objects').close()\n"
        "assert not {'boto3', 'botocore'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_memory_is_stamped_by_the_clock_that_is_handed_in() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)
    store = MemoryStore(lambda: 17)
    store.put("k", [b"x"])
    assert next(store.list()).modified_ms == 17


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
    with pytest.raises(StoreMisconfiguredError, match=re.escape(FORMS)):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    ["file:///data/a#1", "file:///data/why?", "file:///data/a?b", "s3://bucket/a#1", "memory:?x"],
)
def test_no_part_of_a_name_is_left_out(url: str) -> None:
    """Otherwise the data would go to a directory other than the named one."""
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
    """An empty endpoint would mean AWS."""
    with pytest.raises(StoreMisconfiguredError, match=f"the option {name} is empty"):
        open_store(f"s3://bucket/prefix?{name}=")


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(StoreMisconfiguredError, match="unknown option enpoint"):
        open_store("s3://bucket?enpoint=http://x")


def test_a_store_whose_objects_are_encrypted(tmp_path: Path) -> None:
    keys = write_keys(tmp_path / "the keys", ["k1"])
    url = with_options(f"file://{tmp_path}/with%20space", encryption_keys=str(keys))
    assert url == f"file://{tmp_path}/with%20space?encryption_keys={str(keys).replace(' ', '+')}"
    store = open_store(url)
    assert isinstance(store, EncryptedStore)
    store.put("k", [b"secret"])
    assert store.get_all("k") == b"secret"
    assert b"secret" not in (tmp_path / "with space" / "k").read_bytes()
    store.put(CLUSTER_MARKER_KEY, [b"text"])
    assert (tmp_path / "with space" / CLUSTER_MARKER_KEY).read_bytes() == b"text"
    bucket = with_options("s3://bucket/prefix?region=us-east-1", encryption_keys=str(keys))
    assert isinstance(open_store(bucket), EncryptedStore)
    assert isinstance(open_conditional_store(bucket), EncryptedConditionalStore)


def test_keys_that_a_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = write_keys(tmp_path / "keys", ["k1"])
    url = f"file://{tmp_path}/objects?encryption_keys=command"
    monkeypatch.delenv("LACUNA_ENCRYPTION_KEY_COMMAND", raising=False)
    with pytest.raises(
        StoreMisconfiguredError, match="name the command with LACUNA_ENCRYPTION_KEY_COMMAND"
    ):
        open_store(url)
    monkeypatch.setenv("LACUNA_ENCRYPTION_KEY_COMMAND", f"cat {keys}")
    assert isinstance(open_store(url), EncryptedStore)


def test_the_environment_names_keys_where_the_url_does_not() -> None:
    both = {"LACUNA_ENCRYPTION_KEYS": "/k", "LACUNA_ENCRYPTION_KEY_COMMAND": "print"}
    assert with_keys("file:///data", {}) == "file:///data"
    assert with_keys("file:///data", both) == "file:///data?encryption_keys=/k"
    del both["LACUNA_ENCRYPTION_KEYS"]
    assert with_keys("s3://b/p?region=r", both) == "s3://b/p?region=r&encryption_keys=command"
    assert (
        with_keys("file:///data?encryption_keys=/own", both) == "file:///data?encryption_keys=/own"
    )


def test_without_cryptography_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lacuna.logstore.objects.url.find_spec", lambda name: None)
    with pytest.raises(StoreMisconfiguredError, match=r"pip install 'lacuna-log\[security\]'"):
        open_store(f"file://{tmp_path}?encryption_keys=/keys")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("sse=aes256", "sse is 'aes256': choose AES256, aws:kms, aws:kms:dsse"),
        ("sse=AES256&sse_kms_key_id=k", "requires sse=aws:kms or aws:kms:dsse, but it is AES256"),
        ("sse_kms_key_id=k", "sse is '': choose"),
        ("sse=", "the option sse is empty"),
    ],
)
def test_an_encryption_that_s3_does_not_have(options: str, message: str) -> None:
    with pytest.raises(StoreMisconfiguredError, match=message):
        open_store(f"s3://bucket?region=us-east-1&{options}")


def test_a_folder_has_no_options_of_a_bucket() -> None:
    with pytest.raises(
        StoreMisconfiguredError, match="unknown option sse: the options are encryption_keys"
    ):
        check_url("file:///data?encryption_keys=/k&sse=AES256")
