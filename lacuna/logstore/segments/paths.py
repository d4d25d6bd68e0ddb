"""The keys of all of Lacuna's objects. No other module builds or parses a key.

    cluster.json                                          the marker, which names the prefix's cluster
    encryption/<key id>                                   shows that objects are encrypted; written with this key
    <cluster_id>/segments/<lease>/<sequence>.seg          one segment
    <cluster_id>/metadata/<from>-<until>/index            a metadata snapshot, for readers without a server
    <cluster_id>/metadata/<from>-<until>/part-<number>    a part of it, which the index points to
    journal/manifest                                      the leader of a journal in the bucket
    journal/appends/<number>                              one append to it
    journal/snapshots/<position>-<id>/index               a snapshot of the control plane's state, written last
    journal/snapshots/<position>-<id>/part-<number>       a part of it
    journal/probe-<id>                                    created and deleted to test conditional writes

`<lease>` is the lease id in 16 hexadecimal digits, *least significant first*. Lease ids count upwards, so the leases in
use at any time differ in the first digit, where S3 splits its key space under load. All objects of a lease still share
a prefix, so the collector needs only one listing to find what an ended lease left behind, and never lists the whole
bucket. `<sequence>` is 12 digits, most significant first, so a lease's segments are listed in the order in which they
were written.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

MAX_LEASE_ID = 2**63 - 1
MAX_SEQUENCE = 2**48 - 1

_CLUSTER_ID = re.compile(r"[A-Za-z0-9_\-]{1,64}\Z")
_SEGMENT_KEY = re.compile(
    r"(?P<cluster_id>[A-Za-z0-9_\-]{1,64})/segments/(?P<lease>[0-9a-f]{16})/(?P<sequence>[0-9a-f]{12})\.seg\Z"
)
_METADATA_KEY = re.compile(
    r"(?P<cluster_id>[A-Za-z0-9_\-]{1,64})/metadata/(?P<from>[0-9a-f]{12})-(?P<until>[0-9a-f]{12})"
    r"/(?P<object>index|part-[0-9]{6})\Z"
)
_SEGMENT_ID = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,12})\Z")

_APPEND_KEY = re.compile(r"journal/appends/(?P<number>[0-9a-f]{12})\Z")
_JOURNAL_KEY = re.compile(r"journal/(?:appends/|snapshots/|probe-)[0-9a-f]")
_SNAPSHOT_KEY = re.compile(
    r"journal/snapshots/(?P<position>[0-9a-f]{16})-(?P<id>[0-9a-f]{16})/(?P<object>index|part-[0-9]{6})\Z"
)

CLUSTER_MARKER_KEY = "cluster.json"
ENCRYPTION_PREFIX = "encryption/"
PROBES_PREFIX = "probes/"
# Outside the cluster's own prefix, since a control plane learns its cluster's id from its journal.
JOURNAL_PREFIX = "journal/"
JOURNAL_MANIFEST_KEY = f"{JOURNAL_PREFIX}manifest"
JOURNAL_APPENDS_PREFIX = f"{JOURNAL_PREFIX}appends/"
JOURNAL_SNAPSHOTS_PREFIX = f"{JOURNAL_PREFIX}snapshots/"


class InvalidPathError(ValueError):
    """The string is not a key, or no key is possible for the id."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """The lease under which a segment was written, and its number among that lease's segments, starting at 0 or 1.

    It is printed as `<lease>-<sequence>`, in hexadecimal without leading zeros.
    """

    lease_id: int
    sequence: int

    def __post_init__(self) -> None:
        if not (0 <= self.lease_id <= MAX_LEASE_ID and 0 <= self.sequence <= MAX_SEQUENCE):
            raise InvalidPathError(
                f"not a segment id: lease {self.lease_id}, sequence {self.sequence}"
            )

    def __str__(self) -> str:
        return f"{self.lease_id:x}-{self.sequence:x}"

    @classmethod
    def parse(cls, text: str) -> "SegmentId":
        """Parse a segment id as printed by `str`. Raises `InvalidPathError`."""
        match = _SEGMENT_ID.match(text)
        if match is None:
            raise InvalidPathError(f"{text!r} is not a segment id: a segment id looks like 1f-2a")
        return cls(int(match[1], 16), int(match[2], 16))


def check_cluster_id(cluster_id: str) -> str:
    """Return `cluster_id` if it can be part of a key; otherwise raise `InvalidPathError`."""
    if not _CLUSTER_ID.match(cluster_id):
        raise InvalidPathError(
            f"{cluster_id!r} is not a cluster id: use 1 to 64 letters, digits, - and _"
        )
    return cluster_id


def segment_key(cluster_id: str, segment_id: SegmentId) -> str:
    return key_in_lease(cluster_id, segment_id.lease_id, segment_id.sequence)


def key_in_lease(cluster_id: str, lease_id: int, sequence: int) -> str:
    """Like `segment_key`, but for a valid id given as two numbers: creating a SegmentId would take most of the time."""
    return f"{lease_prefix(cluster_id, lease_id)}{sequence:012x}.seg"


@lru_cache(maxsize=256)
def lease_prefix(cluster_id: str, lease_id: int) -> str:
    """Return the prefix shared by the keys of all segments of a lease, and by no other keys."""
    if not 0 <= lease_id <= MAX_LEASE_ID:
        raise InvalidPathError(f"not a lease id: {lease_id}")
    return segments_prefix(cluster_id) + f"{lease_id:016x}"[::-1] + "/"


def segments_prefix(cluster_id: str) -> str:
    """Return the key prefix of all segments in a cluster, for audits, which list everything."""
    return f"{check_cluster_id(cluster_id)}/segments/"


def parse_segment_key(key: str) -> tuple[str, SegmentId]:
    """Return the cluster id and the segment id in a segment's key. Raises `InvalidPathError` for any other key."""
    match = _SEGMENT_KEY.match(key)
    if match is None:
        raise InvalidPathError(f"{key!r} is not the key of a segment")
    lease_id = int(match["lease"][::-1], 16)
    return match["cluster_id"], SegmentId(lease_id, int(match["sequence"], 16))


@dataclass(frozen=True, slots=True, order=True)
class MetadataName:
    """The name of a metadata snapshot: when it was published, and until when its objects are kept, both in ms."""

    published_ms: int
    valid_until_ms: int

    def index_key(self, cluster_id: str) -> str:
        """Return the key of the snapshot's index, which is written last."""
        return f"{self._prefix(cluster_id)}index"

    def part_key(self, cluster_id: str, number: int) -> str:
        return f"{self._prefix(cluster_id)}part-{number:06d}"

    def _prefix(self, cluster_id: str) -> str:
        folder = f"{self.published_ms:012x}-{self.valid_until_ms:012x}"
        return f"{metadata_prefix(cluster_id)}{folder}/"


def metadata_prefix(cluster_id: str) -> str:
    """Return the key prefix of a cluster's metadata snapshots, which are listed oldest first."""
    return f"{check_cluster_id(cluster_id)}/metadata/"


def parse_metadata_key(key: str) -> tuple[str, MetadataName, bool]:
    """Return the cluster id, the snapshot's name, and whether `key` is its index's key. Raises `InvalidPathError` for
    any other key.
    """
    match = _METADATA_KEY.match(key)
    if match is None:
        raise InvalidPathError(f"{key!r} is not the key of a metadata snapshot")
    name = MetadataName(int(match["from"], 16), int(match["until"], 16))
    return match["cluster_id"], name, match["object"] == "index"


def probe_key(cluster_id: str, lease_id: int) -> str:
    """Return the key of the object with which the agent that holds a lease tests the store."""
    return f"{PROBES_PREFIX}{cluster_id}/{lease_id}"


def is_probe_key(key: str) -> bool:
    """Whether `key` belongs to an object with which an agent tests the store, and which exists only briefly."""
    return key.startswith(PROBES_PREFIX) and key.count("/") == 2


def is_encryption_key(key: str) -> bool:
    """Whether `key` belongs to an object that marks the other objects as encrypted."""
    return key.startswith(ENCRYPTION_PREFIX) and key.count("/") == 1


def is_journal_key(key: str) -> bool:
    return key == JOURNAL_MANIFEST_KEY or _JOURNAL_KEY.match(key) is not None


def journal_append_key(number: int) -> str:
    """Return the key of an append to the journal. Appends are listed in the order in which they were written."""
    if not 0 <= number <= MAX_SEQUENCE:
        raise InvalidPathError(f"not the number of an append: {number}")
    return f"{JOURNAL_APPENDS_PREFIX}{number:012x}"


def parse_journal_append_key(key: str) -> int:
    """Return the number of the append with this key. Raises `InvalidPathError` for any other key."""
    match = _APPEND_KEY.match(key)
    if match is None:
        raise InvalidPathError(f"{key!r} is not the key of an append")
    return int(match["number"], 16)


def journal_probe_key(probe_id: bytes) -> str:
    """Return the key of an object that is created and deleted to test conditional writes."""
    return f"{JOURNAL_PREFIX}probe-{probe_id.hex()}"


@dataclass(frozen=True, slots=True, order=True)
class JournalSnapshotName:
    """The name of a snapshot of the control plane's state: its journal position, and a number that makes it unique."""

    position: int
    snapshot_id: int

    def index_key(self) -> str:
        """Return the key of the snapshot's index. A snapshot without an index is ignored."""
        return f"{self._prefix()}index"

    def part_key(self, number: int) -> str:
        return f"{self._prefix()}part-{number:06d}"

    def _prefix(self) -> str:
        return f"{JOURNAL_SNAPSHOTS_PREFIX}{self.position:016x}-{self.snapshot_id:016x}/"


def parse_journal_snapshot_key(key: str) -> tuple[JournalSnapshotName, bool]:
    """Return the snapshot's name, and whether `key` is its index's key. Raises `InvalidPathError`."""
    match = _SNAPSHOT_KEY.match(key)
    if match is None:
        raise InvalidPathError(f"{key!r} is not the key of a snapshot of the control plane's state")
    name = JournalSnapshotName(int(match["position"], 16), int(match["id"], 16))
    return name, match["object"] == "index"
