"""PLAIN, the file of users, and secrets given by reference."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lacuna.agent.security.sasl import plain
from lacuna.agent.security.sasl.mechanism import Authenticated, AuthenticationFailed
from lacuna.agent.security.sasl.plain import PlainExchange, PlainPasswords
from lacuna.agent.security.sasl.users import (
    SHA_256,
    SHA_512,
    Users,
    Verifier,
    read_users,
    verifier,
)
from lacuna.base.errors import UserError
from lacuna.base.secret import read_secret
from lacuna.controlplane.shared.principal import Principal
from lacuna.controlplane.shared.security import Security
from lacuna.controlplane.v1.security_pb2 import ScramCredential

SECRET = "not-to-be-seen"


def credential(user: str, password: bytes, mechanism: int) -> ScramCredential:
    kept = verifier(password, mechanism)
    return ScramCredential(user=user, mechanism=mechanism, **kept._asdict())


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
async def test_plain_compares_with_what_scram_keeps(mechanism: int) -> None:
    security = Security()
    security.credentials["alice", mechanism] = credential("alice", b"old", mechanism)
    passwords = PlainPasswords(Users(security))
    for _ in range(2):  # compared, and remembered
        answer = await PlainExchange(passwords).respond(b"alice\0alice\0old")
        assert answer == (b"", Authenticated(Principal("User", "alice")), None)
    security.credentials["alice", mechanism] = credential("alice", b"new", mechanism)
    with pytest.raises(AuthenticationFailed):
        await PlainExchange(passwords).respond(b"\0alice\0old")
    assert (await PlainExchange(passwords).respond(b"\0alice\0new")).outcome
    del security.credentials["alice", mechanism]
    with pytest.raises(AuthenticationFailed):
        await PlainExchange(passwords).respond(b"\0alice\0new")


async def test_plain_takes_what_fits_all_that_is_kept() -> None:
    """A user who changes the password for only one mechanism does not want the old one to remain valid."""
    security = Security()
    for mechanism in (SHA_256, SHA_512):
        security.credentials["bob", mechanism] = credential("bob", b"old", mechanism)
    passwords = PlainPasswords(Users(security))
    assert (await PlainExchange(passwords).respond(b"\0bob\0old")).outcome
    for changed, other in ((SHA_256, SHA_512), (SHA_512, SHA_256)):
        security.credentials["bob", other] = credential("bob", b"old", other)
        security.credentials["bob", changed] = credential("bob", b"new", changed)
        for password in (b"old", b"new"):
            with pytest.raises(
                AuthenticationFailed, match="set the same password for both"
            ) as failure:
                await PlainExchange(passwords).respond(b"\0bob\0" + password)
            assert failure.value.told == ""
        with pytest.raises(
            AuthenticationFailed, match="the user does not exist, or the password is wrong"
        ):
            await PlainExchange(passwords).respond(b"\0bob\0wrong")
    del security.credentials["bob", other]
    assert (await PlainExchange(passwords).respond(b"\0bob\0new")).outcome


async def test_plain_compares_as_often_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[list[int]] = []
    fits = plain._fits

    def counted(password: bytes, found: Sequence[tuple[int, Verifier]]) -> list[bool]:
        compared.append([mechanism for mechanism, _ in found])
        return fits(password, found)

    monkeypatch.setattr(plain, "_fits", counted)
    security = Security()
    security.credentials["alice", SHA_256] = credential("alice", b"secret", SHA_256)
    passwords = PlainPasswords(Users(security, {"admin": b"secret"}))
    for user in ("alice", "admin", "nobody"):
        assert not await passwords.are_right(user, b"wrong")
    assert compared == [[SHA_256, SHA_512]] * 3


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0secret\0",
        b"\0\xff\0secret",
        b"bob\0alice\0secret",
        b"bob\0alice\n\0secret",
        b"\0alice\0secret" + bytes(8192),
        b"\0alice\0Secret",
        b"\0nobody\0secret",
    ],
)
async def test_what_is_not_right_in_plain_fails_and_is_not_repeated(token: bytes) -> None:
    passwords = PlainPasswords(Users(Security(), {"alice": b"secret"}))
    with pytest.raises(AuthenticationFailed) as failure:
        await PlainExchange(passwords).respond(token)
    said = str(failure.value).lower() + failure.value.told
    assert "secret" not in said
    assert "alice" not in said


async def test_users_of_the_file_come_first(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("of-file\n")
    file = tmp_path / "users.toml"
    file.write_text(f'admin = "file:{tmp_path}/password"\n')
    security = Security()
    security.credentials["admin", SHA_256] = credential("admin", b"of-cluster", SHA_256)
    passwords = PlainPasswords(Users(security, read_users(file)))
    assert await passwords.are_right("admin", b"of-file")
    assert not await passwords.are_right("admin", b"of-cluster")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("admin = 1", 'specify each user as NAME = "file:PATH"'),
        ("admin =", "is not TOML"),
        (f'admin = "{SECRET}"', "must be a reference to a secret"),
        ('admin = "env:NO_SUCH_VARIABLE"', "the environment variable NO_SUCH_VARIABLE is not set"),
    ],
)
def test_a_users_file_that_cannot_be_used_says_why(
    tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "users.toml"
    file.write_text(content)
    with pytest.raises(UserError, match=message) as failure:
        read_users(file)
    assert SECRET not in str(failure.value)
    with pytest.raises(UserError, match="cannot be read"):
        read_users(tmp_path / "none.toml")


def test_secrets_come_from_files_the_environment_and_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"from file\r\n")
    monkeypatch.setenv("A_SECRET", "from env")
    assert read_secret(f"file:{tmp_path}/secret", "s") == b"from file"
    assert read_secret("env:A_SECRET", "s") == b"from env"
    assert read_secret("command:printf 'from command\\n'", "s") == b"from command"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (SECRET, "must be a reference to a secret"),
        (f"password:{SECRET}", "must be a reference to a secret"),
        ("file:/no/such/file", "cannot be read"),
        ("command:false", "it exited with code 1"),
        ("command:/no/such/command", "FileNotFoundError"),
        ("command:true", "is empty"),
        ("command:", "IndexError"),
        ("env:AN_EMPTY_SECRET", "is empty"),
        ("file:/no\0file", "cannot be read"),
        (f"command:sh -c 'echo {SECRET}; exit 3'", "it exited with code 3"),
    ],
)
def test_a_secret_that_cannot_be_had_is_an_error_without_it(
    reference: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AN_EMPTY_SECRET", "")
    with pytest.raises(UserError, match=message) as failure:
        read_secret(reference, "some.setting")
    assert "some.setting" in str(failure.value)
    assert SECRET not in str(failure.value)
