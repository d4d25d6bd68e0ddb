"""Tests which URL opens which store. Each kind is one row, and no other code depends on the kind of a store."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lacuna
from lacuna.logstore.objects import (
    DirectoryStore,
    MemoryStore,
    StoreMetrics,
    StoreMisconfiguredError,
    bucket_url,
    check_url,
    folder_url,
    kind_of,
    open_conditional_store,
    open_store,
)
from lacuna.logstore.objects.directory import DIRECTORY
from lacuna.logstore.objects.encrypted import EncryptedConditionalStore, EncryptedStore
from lacuna.logstore.objects.kind import StoreKind
from lacuna.logstore.objects.memory import MEMORY
from lacuna.logstore.objects.prices import AMAZON_S3
from lacuna.logstore.objects.s3 import READ_GAP, S3Store
from lacuna.logstore.objects.s3_kind import S3
from lacuna.logstore.objects.second_attempts import SILENT
from lacuna.logstore.objects.url import (
    EXPORT_FORMS,
    FORMS,
    JOURNAL_FORMS,
    KINDS,
    SHARED_FORMS,
    folder_of,
    with_keys,
    with_options,
)
from lacuna.logstore.segments.paths import CLUSTER_MARKER_KEY
from tests.doubles.keys import some_keys, write_keys


def test_a_directory(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/with%20space")
    assert isinstance(store, DirectoryStore)
    store.put("k", [b"x"])
    assert (tmp_path / "with space" / "k").read_bytes() == b"x"


@pytest.mark.slow
def test_a_directory_needs_no_boto3(tmp_path: Path) -> None:
    """boto3 takes a third of a second to import, and a command for a folder does not need it."""
    script = (
        "import sys\n"
        "import lacuna.cli.up, lacuna.cli.agent, lacuna.cli.controlplane\n"
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
    """Otherwise the data would go to a directory other than the specified one."""
    with pytest.raises(StoreMisconfiguredError, match="use %3F and %23"):
        open_store(url)


def test_the_gap_of_an_endpoint_with_another_price() -> None:
    usual = open_store("s3://bucket?region=us-east-1")
    chosen = open_store("s3://bucket?region=us-east-1&read_gap=20000")
    assert (usual.read_gap, chosen.read_gap) == (READ_GAP, 20_000)
    with pytest.raises(StoreMisconfiguredError, match="read_gap must be a number of bytes"):
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
        StoreMisconfiguredError, match="specify the command with LACUNA_ENCRYPTION_KEY_COMMAND"
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
        ("sse=aes256", "sse must be one of AES256, aws:kms, aws:kms:dsse, not 'aes256'"),
        ("sse=AES256&sse_kms_key_id=k", "requires sse=aws:kms or aws:kms:dsse, but it is AES256"),
        ("sse_kms_key_id=k", "sse must be one of AES256, aws:kms, aws:kms:dsse, not ''"),
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


SOURCES = Path(lacuna.__file__).parent
#: Modules whose URLs do not refer to stores: token keys, secrets, SQLite files.
OTHERS = {
    "agent/security/sasl/jwks.py",
    "base/client_security.py",
    "base/secret.py",
    "controlplane/journal/connections.py",
}

DECIDE = """
if url.startswith("s3://"): ...
if parts.scheme == "file": ...
if scheme in ("s3", "x"): ...
table = {"memory": 1}
url = f"file://{folder}"
match kind:
    case "s3": ...
isinstance(store, S3Store)
"""
SPEAK = '''
def f():
    """s3://BUCKET is described here."""
    fail("give s3://BUCKET/PREFIX, or a file")
client("s3")
'''


def decisions(tree: ast.AST) -> Iterator[int]:
    """Return the lines at which code depends on the kind of a store: its scheme, URL or class."""
    schemes = {kind.scheme for kind in KINDS.values()}
    prefixes = tuple(f"{scheme}:" for scheme in schemes)
    documented = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith(prefixes) and node not in documented:
                yield node.lineno
        elif isinstance(node, ast.Compare | ast.MatchValue | ast.Dict | ast.Subscript):
            words = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            if schemes & {word for word in words if isinstance(word, str)}:
                yield node.lineno
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            if names & {"DirectoryStore", "MemoryStore", "S3Store"}:
                yield node.lineno


def test_what_decides_is_found_and_what_speaks_is_not() -> None:
    assert sorted(set(decisions(ast.parse(DECIDE)))) == [2, 3, 4, 5, 6, 8, 9]
    assert list(decisions(ast.parse(SPEAK))) == []


@pytest.mark.slow
def test_no_code_outside_the_rows_asks_which_kind_a_store_is() -> None:
    sources = {str(path.relative_to(SOURCES)): path.read_text() for path in SOURCES.rglob("*.py")}
    # Parsing all files takes a hundred times as long as searching them for what a decision needs.
    schemes = "|".join(kind.scheme for kind in KINDS.values())
    needed = re.compile(rf"""["'}}](?:{schemes})\b|\b(?:Directory|Memory|S3)Store\b""")
    rows = {name for name, source in sources.items() if "Final = StoreKind(" in source}
    assert len(rows) == len(KINDS)
    found = {
        f"{name}:{line}"
        for name in sources.keys() - rows - OTHERS
        if needed.search(sources[name])
        for line in decisions(ast.parse(sources[name]))
    }
    assert not found


def test_each_form_is_shown_where_a_store_of_its_kind_may_be() -> None:
    for kind in (DIRECTORY, MEMORY, S3):
        assert kind.form in FORMS
        assert (kind.form in SHARED_FORMS) is (kind is not MEMORY)
        assert (kind.form in JOURNAL_FORMS) is (kind is S3)
        assert (kind.form in EXPORT_FORMS) is (kind is not MEMORY)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_the_form_of_a_kind_is_a_url_of_it(kind: StoreKind) -> None:
    form = kind.form
    check_url(form)
    assert kind_of(form) is kind


def test_only_a_folder_is_a_path(tmp_path: Path) -> None:
    assert folder_of(folder_url(tmp_path / "a b")) == str(tmp_path / "a b")
    assert folder_of("memory:") is None
    assert folder_of("s3://bucket/prefix") is None
    with pytest.raises(StoreMisconfiguredError, match="is not the URL of an object store"):
        folder_of("/data")


@pytest.mark.parametrize(
    ("bucket", "options", "url"),
    [
        ("b", {}, "s3://b"),
        ("s3://b/p", {"endpoint": "http://h:1"}, "s3://b/p?endpoint=http://h:1"),
        ("b/p#1", {"endpoint": None, "sse": "aws:kms"}, "s3://b/p%231?sse=aws:kms"),
    ],
)
def test_the_url_of_a_bucket(bucket: str, options: dict[str, str | None], url: str) -> None:
    assert bucket_url(bucket, **options) == url
    check_url(url)


def test_a_store_has_no_prices_unless_its_kind_has(tmp_path: Path) -> None:
    assert MemoryStore().metrics.prices is MEMORY.prices
    assert DirectoryStore(tmp_path).metrics.prices is DIRECTORY.prices


def test_an_encrypted_store_costs_what_the_requests_to_the_inner_one_cost() -> None:
    inner = MemoryStore()
    inner.metrics = StoreMetrics(7, AMAZON_S3)
    inner.metrics.count_second_attempt("get", SILENT)
    store = EncryptedStore(inner, some_keys())
    store.put("k", [b"x"])
    store.get_all("k")
    sent = store.metrics.sent
    assert (sent.connections_kept, sent.second_attempts) == (7, {("get", SILENT): 1})
    assert store.metrics.dollars() == inner.metrics.dollars() > AMAZON_S3.put_per_1000 / 1000
