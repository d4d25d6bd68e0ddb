"""The cost of encryption at rest: CPU seconds per GiB written and read, with and without it.

    python -m bench.encryption

Objects are in memory, so encryption is the only difference. Reports the minimum of several rounds.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from lacuna.logstore.objects import MemoryStore, ObjectStore
from lacuna.logstore.objects.cluster_keys import KeyFile
from lacuna.logstore.objects.encrypted import EncryptedStore
from lacuna.logstore.objects.store import RangeRead

ROUNDS = 5
TOTAL_BYTES = 256 << 20
#: Sizes of objects and reads: merged segments with large reads, merged segments with reads of single batches, and small
#: flushes.
SHAPES = ((8 << 20, 1 << 20), (8 << 20, 16 << 10), (16 << 10, 16 << 10))


def measure(
    make: Callable[[], ObjectStore], object_size: int, read_size: int
) -> tuple[float, float]:
    """Returns the CPU seconds per GiB for writing and for reading everything."""
    store, payload = make(), os.urandom(object_size)
    buffer = bytearray(object_size)
    keys = [f"k{number}" for number in range(TOTAL_BYTES // object_size)]
    begun = process_time()
    for key in keys:
        store.put(key, [payload])
    written = process_time()
    for key in keys:
        places = range(0, object_size, read_size)
        reads = [RangeRead(key, at, read_size, [(at, read_size, at)]) for at in places]
        assert store.get_into(reads, buffer) == [None] * len(reads)
    ended = process_time()
    store.close()
    scale = (1 << 30) / TOTAL_BYTES
    return (written - begun) * scale, (ended - written) * scale


def main() -> int:
    with TemporaryDirectory() as folder:
        path = Path(folder, "keys.json")
        path.touch(0o600)
        path.write_text(f'{{"current": "k", "keys": {{"k": "{"A" * 43}="}}}}')
        keys = KeyFile(str(path))
        print(
            "KiB per object  KiB per read  write  encrypted  read  encrypted   (CPU seconds per GiB)"
        )
        for object_size, read_size in SHAPES:
            kinds: list[Callable[[], ObjectStore]] = [
                MemoryStore,
                lambda: EncryptedStore(MemoryStore(), keys),
            ]
            bare, encrypted = (
                [
                    min(each)
                    for each in zip(
                        *(measure(make, object_size, read_size) for _ in range(ROUNDS)), strict=True
                    )
                ]
                for make in kinds
            )
            print(
                f"{object_size >> 10:14}  {read_size >> 10:12}  {bare[0]:5.2f}  {encrypted[0]:9.2f}  {bare[1]:4.2f}  "
                f"{encrypted[1]:9.2f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
