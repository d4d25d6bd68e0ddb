"""Valid inputs of each kind, from which a search begins. `python -m tests.fuzz.seeds` writes them into the corpus."""

import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from lacuna.logstore.records.batch import BatchToWrite, NewRecord
from lacuna.logstore.records.control import filler
from lacuna.logstore.records.layout import Codec
from lacuna.logstore.records.legacy.writing import NewMessage, write_message_set
from tests.clients.batch import batch
from tests.doubles.keys import keys_text
from tests.fuzz.corpus import add
from tests.fuzz.forms import SEEDS
from tests.fuzz.targets import SEALED
from tests.logstore.segments.samples import small_segment

RECORDS = Path(__file__).parents[1] / "golden" / "records.json"
LARGEST_GOLDEN = 2_000


def seeds() -> Iterator[tuple[str, bytes]]:
    """Return (target, input)."""
    for codec in Codec:
        for mended in (b"\0", b"\1"):
            yield from (("batches", mended + _batch(codec)), ("stored", mended + _batch(codec)))
    for captured in json.loads(RECORDS.read_text()).values():
        yield "stored", b"\0" + bytes.fromhex(captured["bytes"])[:LARGEST_GOLDEN]
    yield "batches", b"\0" + batch(producer_id=7, producer_epoch=0, base_sequence=0)
    yield "stored", b"\0" + filler(5, 9)
    yield "control", b"\4\0\0\0\1\0\0\0\0\0\0"
    yield "control", b"\4\0\0\0\0\0\0\0\0\0\7"
    yield from (("message_sets", b"\1" + each) for each in _message_sets())
    _, segment = small_segment()
    yield "segments", b"\1" + segment
    yield "segments", b"\0\0\0\x05\xff"
    yield from (("cells", b"\1\0\0\0" + SEALED[at : at + 400]) for at in (0, 65_600))
    places = (0, 5, 6, 7, 8, 24, 48, 65_599, 65_600, 65_607, 65_650)
    for at in places:
        yield from (("cells", how + at.to_bytes(3, "big") + b"\1") for how in (b"\0", b"\2"))
    for key_ids in (["k1"], ["k2", "k1"]):
        text = keys_text(*key_ids)
        yield "cluster_keys", text.encode()
        yield "cluster_keys", json.dumps(tomllib.loads(text)).encode()
        yield "cluster_keys", text.replace("keys", "keyz").encode()
    for header in (b"\0\x12\0\0\0\0\0\1\xff\xff", b"\0\x12\0\3\0\0\0\2\0\1a\0\4lib\2x\0"):
        frame = len(header).to_bytes(4, "big") + header
        yield from (("frames", bytes([step]) + frame * 3) for step in (0, 2, 255))
    for version in range(0, 1 << 16, 997):
        yield "requests", version.to_bytes(2, "big") + b"\0\1\0\0\0\1t\0\0\0\1\0\0\0\0"

    yield from (("sasl", each) for each in _tokens())
    yield from (("forms", each) for each in SEEDS.values())
    for header in (b'{"alg":"ES256","kid":"k"}', b'{"alg":"none"}', b'{"alg":"HS256"}', b"[[[["):
        for payload in (_CLAIMS, b'{"exp":1e999,"sub":7,"aud":[1]}'):
            yield "jwts", b"\1" + header + b"\0" + payload + b"\0" + bytes([255]) * 64
    yield "jwts", b"\1" + b'{"alg":"none"}' + b"\0" + _CLAIMS + b"\0"
    yield "jwts", b"\0eyJhbGciOiJub25lIn0.e30."


_CLAIMS = b'{"sub":"alice","iat":1700000000,"exp":1700000100,"scope":"a b"}'


def _tokens() -> Iterator[bytes]:
    final = b"c=biws,r=nonceserver,p=" + b"A" * 43 + b"="
    for first in (b"n,,n=alice,r=nonce", b"n,a=al=2Cice,n=al=2Cice,r=nonce,tokenauth=true"):
        for second in (final, final[:-9]):
            yield bytes([0, len(first)]) + first + second
    for first in (b"\0alice\0secret", b"alice\0alice\0secret", b"\0\0"):
        yield bytes([1, len(first)]) + first
    for first in (b"n,,\1auth=Bearer a.b.c\1\1", b"n,a=b,\1auth=Bearer e30.e30.\1k=v\1\1"):
        yield from (bytes([2, len(first)]) + first + second for second in (b"\1", first))


def _message_sets() -> Iterator[bytes]:
    messages = [NewMessage(i, 1_700_000_000_000, b"k%d" % i, b"v" * i) for i in range(4)]
    for magic in (0, 1):
        for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            yield write_message_set(messages, magic=magic, codec=codec)
            yield write_message_set(messages, magic=magic, codec=codec)[:-3]


def _batch(codec: Codec) -> bytes:
    records = tuple(
        NewRecord(
            offset_delta=i,
            timestamp=1_700_000_000_000 + i,
            key=None if i % 3 else b"k%d" % i,
            value=b"v" * i,
            headers=((b"h", b"x"),) * (i % 2),
        )
        for i in range(5)
    )
    return BatchToWrite(records=records, codec=codec).encode()


def main() -> int:
    found: defaultdict[str, list[bytes]] = defaultdict(list)
    for target, data in seeds():
        found[target].append(data)
    for target, inputs in found.items():
        add(target, inputs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
