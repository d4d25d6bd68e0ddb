"""The layouts of messages on the wire, as declared by the modules of `lacuna.wire.messages`.

    class HeartbeatRequest(NamedTuple):
        group_id: String = ""
        generation_id: Int32 = 0
        member_id: String = ""
        group_instance_id: Annotated[String | None, In(since=3)] = None

    HEARTBEAT_REQUEST, HEARTBEAT_RESPONSE = messages(
        HeartbeatRequest, HeartbeatResponse, api_key=12, versions=(0, 4), first_flexible=4
    )

The annotations of a named tuple define the layout: the fields in the order in which they are sent, each with its kind
and the versions that contain it. Type checkers see only the Python types. In a version without a field, reading yields
the tuple's default, and writing omits the field. Each version's plan for lacuna.wire.kernel is built on first use.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
)

from lacuna.wire import kernel

M = TypeVar("M")
R = TypeVar("R")
M_co = TypeVar("M_co", covariant=True)
Buffer: TypeAlias = bytes | bytearray | memoryview

# The types of fields, with the kernel's kinds.
Bool: TypeAlias = Annotated[bool, kernel.BOOL]
Int8: TypeAlias = Annotated[int, kernel.INT8]
Int16: TypeAlias = Annotated[int, kernel.INT16]
Uint16: TypeAlias = Annotated[int, kernel.UINT16]
Int32: TypeAlias = Annotated[int, kernel.INT32]
Uint32: TypeAlias = Annotated[int, kernel.UINT32]
Int64: TypeAlias = Annotated[int, kernel.INT64]
Float64: TypeAlias = Annotated[float, kernel.FLOAT64]
Uuid: TypeAlias = Annotated[bytes, kernel.UUID]
String: TypeAlias = Annotated[str, kernel.STRING]
Bytes: TypeAlias = Annotated[bytes, kernel.BYTES]
Records: TypeAlias = Annotated[memoryview, kernel.RECORDS]
Buffers: TypeAlias = Annotated[Sequence[Buffer], kernel.BUFFERS]

#: The value of an id field when there is no id.
ZERO_UUID: Final = bytes(16)
#: The size in bytes of the length of a string, bytes or records, if it is not compact.
_LENGTH: Final = {kernel.STRING: 2, kernel.BYTES: 4, kernel.RECORDS: 4, kernel.BUFFERS: 4}
_ARRAY_LENGTH: Final = 4


@dataclass(frozen=True, slots=True)
class In:
    """The versions that contain a field: `since` to `until`, including both; None means no end.

    If the field may be null, `null_since` is the first version in which it may be null; by default, the first that
    contains it. A field with a `tag` is a tagged field (KIP-482).
    """

    since: int = 0
    until: int | None = None
    null_since: int | None = None
    tag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(In):
    """One field of a struct. `kind` is one of the kernel's kinds, or the field's Struct.

    The other attributes are the same as in `In`, but `null_since` is None if no version allows null.
    """

    kind: "int | Struct"
    is_array: bool

    @classmethod
    def of(cls, hint: Any) -> "Field":
        kind: int | Struct | None = None
        limits, is_array, may_be_null = In(), False, False
        while kind is None:
            inner, *rest = get_args(hint) or (hint,)
            if inner is hint:
                kind = struct_of(hint)
            elif get_origin(hint) is not Annotated:
                may_be_null, is_array = may_be_null or bool(rest), is_array or not rest
            elif isinstance(rest[-1], In):
                limits, kind = rest[-1], rest[0] if rest[1:] else None
            else:
                kind = rest[0]
            hint = inner
        null_since = limits.since if limits.null_since is None else limits.null_since
        return cls(
            since=limits.since,
            until=limits.until,
            null_since=null_since if may_be_null else None,
            tag=limits.tag,
            kind=kind,
            is_array=is_array,
        )

    def is_in(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)

    def code(self, version: int, is_flexible: bool) -> int:
        code = kernel.STRUCT if isinstance(self.kind, Struct) else self.kind
        if self.is_array:
            code |= kernel.ARRAY
        if self.null_since is not None and version >= self.null_since:
            code |= kernel.NULLABLE
        return code | kernel.COMPACT if is_flexible else code


class Struct:
    __slots__ = ("defaults", "fields", "make")

    def __init__(self, make: Any) -> None:
        self.make = make
        self.fields = tuple(map(Field.of, make.__annotations__.values()))
        self.defaults = tuple(make._field_defaults.values())
        kernel.hasten(make, self.defaults)

    def plan(self, version: int, is_flexible: bool) -> kernel.Plan:
        """Build the kernel's plan for one version."""
        codes, tag_codes, tags = bytearray(), bytearray(), {}
        for i, field in enumerate(self.fields):
            code = field.code(version, is_flexible) if field.is_in(version) else kernel.ABSENT
            codes.append(kernel.ABSENT if field.tag is not None else code)
            tag_codes.append(kernel.ABSENT if field.tag is None else code)
            if field.tag is not None and code != kernel.ABSENT:
                tags[field.tag] = i
        return kernel.Plan(
            self.make,
            bytes(codes),
            self.defaults,
            tuple(
                field.kind.plan(version, is_flexible) if isinstance(field.kind, Struct) else None
                for field in self.fields
            ),
            tuple(_least_element(field, version, is_flexible) for field in self.fields),
            is_flexible,
            bytes(tag_codes),
            tags,
        )

    def least(self, version: int, is_flexible: bool) -> int:
        """Return the minimum size of the struct in bytes in `version`."""
        fields = sum(
            _least(field, version, is_flexible)
            for field in self.fields
            if field.is_in(version) and field.tag is None
        )
        return fields + is_flexible


#: The layout of a named tuple, made once.
struct_of: Final[Callable[[Any], Struct]] = cache(Struct)


def _least(field: Field, version: int, is_flexible: bool) -> int:
    if field.is_array:
        return 1 if is_flexible else _ARRAY_LENGTH
    if isinstance(field.kind, Struct) and field.null_since is not None:
        return 1
    return _least_element(field, version, is_flexible)


def _least_element(field: Field, version: int, is_flexible: bool) -> int:
    if isinstance(field.kind, Struct):
        return max(field.kind.least(version, is_flexible), 1)
    if field.kind < len(kernel.SIZES):
        return kernel.SIZES[field.kind]
    return 1 if is_flexible else _LENGTH[field.kind]


class _Read(Protocol[M_co]):
    def __call__(
        self, body: memoryview, version: int, most: int = kernel.MOST_ELEMENTS, /
    ) -> M_co: ...


class Message(Generic[M]):
    """All versions of a request or a response.

    `read(body, version)` returns the message at the beginning of `body`, a contiguous view of bytes, or raises
    MalformedMessage; a third argument limits the total number of elements in its arrays. `write(message, version)`
    returns the bytes of a message, without the fields that are not in the version. `buffers(message, version)` returns
    the same as a sequence of buffers, without copying records. Both raise OverflowError, TypeError or ValueError for a
    value that does not fit. All three raise KeyError for an unknown version.
    """

    #: The kernel's own methods without a wrapper, because they are called for every request.
    read: _Read[M]
    write: Callable[[M, int], bytes]
    buffers: Callable[[M, int], Sequence[Buffer]]

    def __init__(
        self,
        make: type[M],
        *,
        api_key: int,
        versions: tuple[int, int],
        first_flexible: int | None,
        is_exact: bool = False,
    ) -> None:
        """`versions` contains the first and last version. With `is_exact`, trailing bytes make a message malformed."""
        #: `codec.errors` has the error codes in the message last written.
        self.codec = codec = kernel.Codec(self._plan, versions[1], is_exact)
        self.is_exact = is_exact
        self.body = struct_of(make)
        self.api_key = api_key
        self.versions = versions
        self.first_flexible = first_flexible
        self.read = codec.read
        self.write = codec.write
        self.buffers = codec.buffers

    def is_flexible(self, version: int) -> bool:
        """Whether `version` uses compact lengths and tagged fields (KIP-482), including those in its header."""
        return self.first_flexible is not None and version >= self.first_flexible

    def _plan(self, version: int) -> kernel.Plan:
        first, last = self.versions
        if not first <= version <= last:
            raise KeyError(f"there is no version {version} of {self.body.make.__name__}")
        return self.body.plan(version, self.is_flexible(version))


def messages(
    request: type[M],
    response: type[R],
    *,
    api_key: int,
    versions: tuple[int, int],
    first_flexible: int | None,
    is_exact: bool = False,
) -> tuple[Message[M], Message[R]]:
    """Return the request and the response of an API. `is_exact` applies only to the request."""
    same: Any = {"api_key": api_key, "versions": versions, "first_flexible": first_flexible}
    return Message(request, is_exact=is_exact, **same), Message(response, **same)
