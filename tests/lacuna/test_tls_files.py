"""Tests TLS files that change, identities in certificates, and processes that authenticate each other with
certificates.
"""

from __future__ import annotations

import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from lacuna.base import tls
from lacuna.base.errors import UserError
from lacuna.base.tls import Watched, subject_of
from tests.certificates import Authority, Certificate
from tests.clients.librd import eventually
from tests.lacuna import clients
from tests.lacuna.test_controlplane_and_agents import running, service

if TYPE_CHECKING:
    from tests.lacuna.conftest import Command, Refusal


IA5, PRINTABLE, NUMERIC = _ASN1Type.IA5String, _ASN1Type.PrintableString, _ASN1Type.NumericString
BMP, UNIVERSAL = _ASN1Type.BMPString, _ASN1Type.UniversalString


def test_who_asks_after_a_second_gets_what_the_files_have_now(tmp_path: Path) -> None:
    """However long the server was idle, a removed authority admits no client."""
    file = tmp_path / "file"
    file.write_text("one")
    watched = Watched([str(file)], file.read_text)
    assert watched.get(100.0) == "one"
    file.write_text("second")
    assert watched.get(100.9) == "one"
    assert watched.get(101.0) == "second"
    file.write_text("number three")
    assert watched.get(100_000.0) == "number three"


@pytest.mark.parametrize("error", [UserError("no"), ssl.SSLError("no"), ValueError("no")])
def test_what_cannot_be_used_leaves_the_earlier_in_use(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("one")

    def make() -> str:
        if (found := file.read_text()) == "nonsense":
            raise error
        return found

    watched = Watched([str(file)], make)
    file.write_text("nonsense")
    assert watched.get(100.0) == "one"
    assert "cannot be used, so the previous ones stay in use: " in caplog.text
    file.unlink()
    assert watched.get(101.0) == "one"
    file.write_text("other")
    assert watched.get(102.0) == "other"


def test_what_takes_long_to_make_is_used_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password command may be slow."""
    monkeypatch.setattr(tls, "_MOST_WAIT_SECONDS", 0.0)
    file = tmp_path / "file"
    file.write_text("one")
    may_go_on = threading.Event()
    may_go_on.set()

    def make() -> str:
        assert may_go_on.wait(60)
        return file.read_text()

    watched = Watched([str(file)], make)
    file.write_text("other")
    may_go_on.clear()
    assert watched.get(100.0) == "one"
    assert watched.get(101.0) == "one"
    may_go_on.set()
    assert watched.look is not None
    watched.look.result(60)
    assert watched.get(101.5) == "other"


# Subjects. The expected text was printed by X500Principal.getName() in OpenJDK 17.


KINDS = {
    "C": NameOID.COUNTRY_NAME,
    "CN": NameOID.COMMON_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "EMAIL": NameOID.EMAIL_ADDRESS,
    "L": NameOID.LOCALITY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "SERIAL": NameOID.SERIAL_NUMBER,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "STREET": NameOID.STREET_ADDRESS,
    "UID": NameOID.USER_ID,
}
#: A kind or an OID, a value, and its string type if it is not the usual one.
One = tuple[str, str] | tuple[str, str, Any]


def issued(authority: Authority, *names: list[One]) -> bytes:
    def attribute(kind: str, value: str, form: Any = None) -> x509.NameAttribute[str]:
        oid = KINDS.get(kind) or ObjectIdentifier(kind)
        return x509.NameAttribute(oid, value, form, _validate=False)

    subject = x509.Name(
        [x509.RelativeDistinguishedName([attribute(*each) for each in name]) for name in names]
    )
    made = authority.issue("made", subject=subject)
    return ssl.PEM_cert_to_DER_cert(Path(made.certificate).read_text())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (
            [[("C", "DE")], [("O", "Acme, Inc.")], [("OU", "a")], [("CN", "x")]],
            "CN=x,OU=a,O=Acme\\, Inc.,C=DE",
        ),
        (
            [
                [("DC", "com", IA5)],
                [("ST", "s")],
                [("L", "l")],
                [("STREET", "st")],
                [("UID", "u1")],
            ],
            "UID=u1,STREET=st,L=l,ST=s,DC=com",
        ),
        (
            [[("EMAIL", "alice@example.com", IA5)], [("CN", "x")]],
            "CN=x,1.2.840.113549.1.9.1=#1611616c696365406578616d706c652e636f6d",
        ),
        ([[("SERIAL", "77", PRINTABLE)], [("CN", "ü")]], "CN=ü,2.5.4.5=#13023737"),
        (
            [[("1.3.6.1.4.1.99999.1", "own")], [("2.999.3", "two")]],
            "2.999.3=#0c0374776f,1.3.6.1.4.1.99999.1=#0c036f776e",
        ),
        (
            [[("UID", "b"), ("CN", "a"), ("EMAIL", "m", IA5)]],
            "CN=a+1.2.840.113549.1.9.1=#16016d+UID=b",
        ),
        ([[("CN", 'a,b=c+d"e\\f<g>h;i#j')]], r"CN=a\,b\=c\+d\"e\\f\<g\>h\;i\#j"),
        ([[("CN", "  a b  ")]], r"CN=\ \ a b\ \ "),
        ([[("CN", "   ")]], r"CN=\ \ \ "),
        ([[("CN", "\ra\nb\r")]], "CN=\\\ra\nb\\\r"),
        ([[("CN", "a\0b")]], r"CN=a\00b"),
        ([[("CN", "😀é漢")]], "CN=😀é漢"),
        ([[("CN", "12", NUMERIC)]], "CN=#12023132"),
        ([[("CN", "ab", UNIVERSAL)]], "CN=#1c080000006100000062"),
        ([[("CN", "ab", BMP)]], r"CN=\00a\00b"),
    ],
)
def test_subjects_are_written_as_java_does(
    tmp_path: Path, names: list[list[One]], expected: str
) -> None:
    assert subject_of(issued(Authority(tmp_path), *names)) == expected


def test_a_subject_that_is_not_utf_8_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the subject of the certificate cannot be read"):
        subject_of(issued(Authority(tmp_path), [("CN", "\xe4", BMP)]))


@pytest.mark.slow
def test_what_is_no_certificate_cannot_be_read(tmp_path: Path) -> None:
    """A certificate that is truncated or changed at any byte yields an identity or raises ValueError."""
    whole = issued(Authority(tmp_path), [("CN", "x")], [("UID", "y")])
    for place in range(len(whole)):
        with pytest.raises(ValueError, match="cannot be read"):
            subject_of(whole[:place])
        for value in (0, 0x1F, 0x30, 0x7F, 0x80, 0x84, 0xFF):
            changed = whole[:place] + bytes([value]) + whole[place + 1 :]
            with suppress(ValueError):
                subject_of(changed)


def options(own: Certificate, authority: Authority) -> tuple[str, ...]:
    return (
        f"--control-tls-cert={own.certificate}",
        f"--control-tls-key={own.key}",
        f"--control-tls-ca={authority.path}",
    )


@pytest.mark.slow
def test_a_cluster_with_certificates(tmp_path: Path, lacuna: Command, refused: Refusal) -> None:
    authority = Authority(tmp_path)
    plane, agent, job = (authority.issue(name) for name in ("plane", "agent", "job"))
    principals = "--set=controlplane.cluster.principals=User:CN=plane,O=tests;User:CN=agent,O=tests"
    data = ("--listen=127.0.0.1:0", f"--data={tmp_path}/data", principals)
    with running("control plane: ", "controlplane", *data, *options(plane, authority)) as control:
        named = (f"--control={control}", f"--objects={tmp_path}/objects", principals)
        listening = ("--listen", "127.0.0.1:0", "--workers", "2")
        with running(
            "bootstrap: ", "agent", *listening, *named, *options(agent, authority)
        ) as bootstrap:
            clients.send(clients.plain(bootstrap), "t", ["x"])
            own = options(job, authority)
            rows = lacuna("explain", "t", "--control", control, *own).rows
            assert [row[2] for row in rows[1:]] == ["delivered"]
            status = lacuna("controlplane", "status", "--control", control, *own)
            assert f"leader {control}" in status.out
            variables = {
                "LACUNA_CONTROLPLANE_SSL_CERTIFICATE_LOCATION": job.certificate,
                "LACUNA_CONTROLPLANE_SSL_KEY_LOCATION": job.key,
                "LACUNA_CONTROLPLANE_SSL_CA_LOCATION": authority.path,
            }
            assert lacuna("explain", "t", "--control", control, **variables).code == 0
            said = refused("explain", "t", "--control", control)
            assert said.startswith(f"no control plane answered at {control}")
            stranger = Authority(tmp_path, "other").issue("stranger")
            assert "no control plane" in refused(
                "explain", "t", "--control", control, *options(stranger, authority)
            )


@pytest.mark.slow
def test_acls_decide_for_jobs(tmp_path: Path, lacuna: Command, refused: Refusal) -> None:
    """A job sees, reads and compacts a topic once ACLs allow it. Until then, the error names the missing right."""
    authority = Authority(tmp_path)
    agent, job = authority.issue("agent"), authority.issue("job")
    principals = "--set=controlplane.cluster.principals=User:CN=agent,O=tests"
    rights = (principals, "--authorizer", "--super-user=User:ANONYMOUS")
    own = options(agent, authority)
    plane = ("controlplane", "--listen=127.0.0.1:0", f"--data={tmp_path}/data", *rights, *own)
    with running("control plane: ", *plane) as control:
        store = f"--objects={tmp_path}/objects"
        listening = ("agent", "--listen=127.0.0.1:0", f"--control={control}", store, *rights)
        with running("bootstrap: ", *listening, *own) as bootstrap:
            clients.send(clients.plain(bootstrap), "t", ["x"])
            named = (f"--control={control}", *options(job, authority))
            explain = ("explain", "t", *named)
            bucket = f"--store=file://{tmp_path}/objects"
            verify = ("verify", "--no-spark", "--topic=t", bucket, *named)
            compact = ("compact", "--topic=t", bucket, *named)

            def allow(operation: str) -> None:
                whom = ("--allow-principal", "User:CN=job,O=tests", "--operation", operation)
                added = lacuna("acls", "add", *whom, "--topic", "t", "-b", bootstrap)
                assert added.code == 0, added

            for command in (explain, verify, compact):
                said = lacuna(*command).err
                assert "User:CN=job,O=tests may " in said
                assert "`lacuna acls add" in said
            assert "no topic 't' that User:CN=job,O=tests may describe" in refused(*explain)
            allow("Describe")
            for command in (explain, verify, compact):
                assert "User:CN=job,O=tests may not READ" in lacuna(*command).err
            allow("Read")
            assert [row[2] for row in lacuna(*explain).rows[1:]] == ["delivered"]
            assert lacuna(*verify).code == 0
            assert "User:CN=job,O=tests may not ALTER topic t" in lacuna(*compact).err
            allow("Alter")
            assert lacuna(*compact).code == 0


def test_an_authorizer_that_nobody_is_asked_of_does_not_start(
    tmp_path: Path, refused: Refusal
) -> None:
    authority = Authority(tmp_path)
    own = options(authority.issue("own"), authority)
    plane = ("controlplane", "--listen=127.0.0.1:0", f"--data={tmp_path}/data")
    rights = ("--authorizer", "--super-user=User:CN=admin")
    assert "--control-tls-ca" in refused(*plane, *rights)
    assert "controlplane.cluster.principals" in refused(*plane, *rights, *own)
    assert "--super-user User:NAME" in refused(*plane, "--authorizer", *own)
    assert "add --authorizer" in refused(*plane, "--super-user=User:admin", *own)


@pytest.mark.slow
def test_a_standby_asks_the_leader_with_its_certificate(
    tmp_path: Path, bucket_url: str, lacuna: Command
) -> None:
    authority = Authority(tmp_path)
    plane, job = authority.issue("plane"), authority.issue("job")
    planes = (
        *("controlplane", "--listen=127.0.0.1:0", "--journal=bucket", f"--store={bucket_url}"),
        "--set=controlplane.cluster.principals=User:CN=plane,O=tests",
    )
    own = options(job, authority)
    with (
        running("control plane: ", *planes, *options(plane, authority)) as leader,
        running("control plane: ", *planes, *options(plane, authority)) as standby,
    ):

        def status(control: str) -> list[str]:
            out = lacuna("controlplane", "status", "--control", control, *own).out
            return [line.partition(" ")[2].partition(" ")[0] for line in out.splitlines()]

        eventually(lambda: standby in status(leader)[3:], True)
        assert status(standby)[0] == leader


def test_a_control_plane_that_others_reach_warns(tmp_path: Path) -> None:
    with service("controlplane", "--listen=0.0.0.0:0", f"--data={tmp_path / 'data'}") as process:
        assert process.stderr is not None
        assert "accepts every client that can connect to it" in process.stderr.readline()
