"""Tests a cluster with encrypted objects: its start, key rotation, damage, and opening it without keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lacuna.agent.produce.settings import ProduceSettings
from lacuna.logstore.objects import DirectoryStore, folder_url, open_store
from lacuna.logstore.objects.cells import is_encrypted
from lacuna.logstore.objects.s3 import S3Store
from lacuna.logstore.objects.url import with_options
from lacuna.operating.agents import AgentParts
from lacuna.operating.moto import CREDENTIALS
from lacuna.testing import Cluster, ProcessFailedError
from tests.doubles.keys import write_keys
from tests.forked import ForkedCluster
from tests.lacuna import clients

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal

#: Every flush is put, so that there are objects to examine.
PUT = "--set=produce.hot.bytes=0"
PUTTING = AgentParts(produce=ProduceSettings(hot_bytes=0))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The path of a file with one key."""
    return write_keys(tmp_path / "keys.toml", ["first"])


def stored(data: Path) -> dict[str, bytes]:
    """Return all objects in a cluster's folder as stored, by key."""
    store = DirectoryStore(data / "objects")
    try:
        return {info.key: bytes(store.get_all(info.key)) for info in store.list()}
    finally:
        store.close()


@pytest.mark.slow
def test_keys_are_rotated_and_what_was_written_stays(
    data: Path, keys: Path, lacuna: Command, refused: Refusal
) -> None:
    with ForkedCluster(data, [PUT, f"--encryption-keys={keys}"]) as up:
        producer = clients.transactional(up.bootstrap, "t")
        clients.transact(producer, "t", ["secret 0"])
        write_keys(keys, ["second", "first"])
        clients.send(clients.plain(up.bootstrap), "t", ["secret 1"])
        up.kill()
        up.start()
        expected = [(0, "secret 0"), (1, "secret 1")]
        assert clients.consume(up.bootstrap, "t", 2) == expected
        report = lacuna("verify", "--no-spark", "--data", str(data))
        assert (report.code, "all is sound" in report.out) == (0, True), report
        up.stop()
    objects = stored(data)
    segments = [objects[key] for key in sorted(objects) if key.endswith(".seg")]
    assert not any(b"secret" in each for each in objects.values())
    assert [segment[8:24].rstrip(b"\0") for segment in segments][:2] == [b"first", b"second"]
    assert {"encryption/first", "encryption/second"} < objects.keys()
    write_keys(keys, ["second"])
    with ForkedCluster(data, [f"--encryption-keys={keys}"]) as up:
        assert "with key 'first', but" in refused(
            "verify", "--no-spark", "--data", str(data), code=2
        )
        write_keys(keys, ["second", "first"])
        assert clients.consume(up.bootstrap, "t", 2) == expected


def test_an_encrypted_cluster_without_its_keys_or_with_others(data: Path, keys: Path) -> None:
    with Cluster(data, store=with_keys(data, keys)) as cluster:
        clients.send(clients.plain(cluster.bootstrap), "t", ["x"])
    with pytest.raises(ProcessFailedError, match="the objects of this cluster are encrypted, with"):
        ForkedCluster(data).start()
    other = write_keys(keys.with_name("other.toml"), ["other"])
    other.write_text(other.read_text().replace("other", "first"))
    with pytest.raises(ProcessFailedError, match="'first' is not the key that encrypted"):
        ForkedCluster(data, [f"--encryption-keys={other}"]).start()


def with_keys(data: Path, keys: Path) -> str:
    return with_options(folder_url(data / "objects"), encryption_keys=str(keys))


@pytest.mark.slow
def test_workers_have_the_keys_that_a_command_prints(
    data: Path, keys: Path, lacuna: Command, refused: Refusal
) -> None:
    hook = f"cat {keys}"
    with ForkedCluster(data, ["--workers=2", f"--encryption-key-command={hook}"]) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["secret 0"])
        assert clients.consume(up.bootstrap, "t", 1) == [(0, "secret 0")]
        audit = ("verify", "--no-spark", "--data", str(data))
        assert "LACUNA_ENCRYPTION_KEY_COMMAND" in refused(*audit, code=2)
        assert lacuna(*audit, LACUNA_ENCRYPTION_KEY_COMMAND=hook).code == 0
        assert lacuna(*audit, f"--encryption-keys={keys}").code == 0
    assert not any(b"secret" in each for each in stored(data).values())


@pytest.mark.slow
def test_a_cluster_is_encrypted_while_it_has_objects_that_are_not(
    data: Path, keys: Path, lacuna: Command
) -> None:
    with ForkedCluster(data, [PUT]) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["plain"])
        assert lacuna("metadata", "publish", "--data", str(data)).code == 0
    with pytest.raises(ProcessFailedError, match='set plaintext = "read" in the file'):
        ForkedCluster(data, [f"--encryption-keys={keys}"]).start()
    write_keys(keys, ["first"], plaintext="read")
    with ForkedCluster(data, [f"--encryption-keys={keys}"]) as up:
        clients.send(clients.plain(up.bootstrap), "t", ["secret"])
        assert clients.consume(up.bootstrap, "t", 2) == [(0, "plain"), (1, "secret")]
        audit = ("verify", "--no-spark", "--data", str(data))
        assert lacuna(*audit).code == 0
        strict = write_keys(keys.with_name("strict.toml"), ["first"])
        left = lacuna(*audit, f"--encryption-keys={strict}")
        assert left.code == 1
        assert (
            left.out.count("it is not encrypted, which is not allowed") == 2
        )  # the segment, the snapshot
    assert not any(b"secret" in each for each in stored(data).values())


def test_what_was_changed_in_the_bucket_is_not_sent_and_verify_says_where(
    data: Path, keys: Path, lacuna: Command
) -> None:
    with Cluster(data, store=with_keys(data, keys), parts=PUTTING) as cluster:
        clients.send(clients.plain(cluster.bootstrap), "t", ["whole", "damaged"])
    (key,) = [key for key in stored(data) if key.endswith(".seg")][-1:]
    bytes_of = stored(data)[key]
    store = DirectoryStore(data / "objects")
    store.delete([key])
    store.put(key, [bytes_of[:100], bytes([bytes_of[100] ^ 1]), bytes_of[101:]])
    store.close()
    with Cluster(data, store=with_keys(data, keys)) as cluster:
        report = lacuna("verify", "--no-spark", "--data", str(data))
        assert report.code == 1
        assert "its bytes differ from those written under this name" in report.out
        with pytest.raises(AssertionError, match="INVALID_MSG"):
            clients.consume(cluster.bootstrap, "t", 2)


@pytest.mark.slow
def test_a_journal_in_the_bucket_is_encrypted_too(
    tmp_path: Path, keys: Path, bucket_url: str, lacuna: Command
) -> None:
    url = with_options(bucket_url, encryption_keys=str(keys), sse="AES256")
    with Cluster(tmp_path / "one", store=url, journal="bucket") as cluster:
        clients.send(clients.plain(cluster.bootstrap), "a-topic", ["secret"])
        cluster.kill()
        cluster.data = tmp_path / "two"
        cluster.start()
        write_keys(keys, ["second", "first"])
        clients.send(clients.plain(cluster.bootstrap), "a-topic", ["another"])
        read = clients.consume(cluster.bootstrap, "a-topic", 2)
        assert read == [(0, "secret"), (1, "another")]
        bare = open_store(bucket_url)
        assert isinstance(bare, S3Store)
        objects = {info.key: bytes(bare.get_all(info.key)) for info in bare.list()}
        for key in objects:
            head = bare._client.head_object(Bucket=bare._bucket, Key=bare._name(key))
            assert head["ServerSideEncryption"] == "AES256"
        bare.close()
    assert sum(key.startswith("journal/") for key in objects) > 2
    for key, found in objects.items():
        assert is_encrypted(found) == (key != "cluster.json"), key
        assert b"a-topic" not in found
    options = ("--journal=bucket", f"--store={bucket_url}", "--listen=127.0.0.1:0")
    ran = lacuna("controlplane", *options, **CREDENTIALS)
    assert ran.code == 1
    assert "the journal is encrypted: specify the file that contains the cluster's keys" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--s3-sse=AES256"], "--s3-sse needs --bucket"),
        (["up", "--store=s3://b", "--s3-sse-kms-key-id=k"], "--s3-sse-kms-key-id needs --bucket"),
        (["up", "--bucket=b", "--s3-sse=aes"], "sse must be one of AES256, aws:kms, aws:kms:dsse, not 'aes'"),
        (["up", "--bucket=b", "--s3-sse-kms-key-id=k"], "sse must be one of AES256, aws:kms, aws:kms:dsse, not ''"),
        (["agent", "--control=:1", "--store=s3://b", "--s3-sse=AES256"], "add ?sse=… to its URL"),
        (["up", "--encryption-keys=none.toml"], "none.toml, cannot be read: No such file"),
        (
            ["up", "--encryption-keys=keys", "--encryption-key-command=print"],
            "both specify the keys: use only one of them",
        ),
        (["up", "--encryption-key-command=false"], "the command that prints the cluster's keys exited with status 1"),
    ],
)  # fmt: skip
def test_options_that_cannot_work(refused: Refusal, arguments: list[str], message: str) -> None:
    assert message in refused(*arguments)


def test_a_typed_file_of_keys_overrules_a_command_of_the_environment(
    tmp_path: Path, refused: Refusal
) -> None:
    said = refused("up", "--encryption-keys=none", LACUNA_ENCRYPTION_KEY_COMMAND="false")
    assert f"{tmp_path}/none, cannot be read" in said
