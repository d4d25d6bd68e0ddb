# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, warn.unreachable=False
"""Reads and writes messages according to plans.

A plan, built by `lacuna.wire.layout`, describes the bytes of one struct in one version. It has a code for each field of
a named tuple, in order. Cython compiles this module, or Python interprets it; `kernel.pyi` declares the types for
callers.

Every length is compared with the remaining bytes before memory is allocated for it. As in Kafka, an array of more than
LONGEST_ARRAY elements is malformed, and so is a struct with more than MOST_TAGS tagged fields. In a long array, the
kernel lets other threads run from time to time, so messages may be read and written in threads.
"""

from __future__ import annotations

import struct

try:
    import cython
except ModuleNotFoundError:
    from lacuna.logstore import interpreted as cython

from lacuna.wire.errors import MalformedMessage

# Kinds: the low bits of a field's code. Those up to UUID have a fixed size. kernel.pxd has the same numbers.
ABSENT = 0
BOOL = 1
INT8 = 2
INT16 = 3
UINT16 = 4
INT32 = 5
UINT32 = 6
INT64 = 7
FLOAT64 = 8
UUID = 9
STRING = 10
BYTES = 11
STRUCT = 12
# Bytes that are not copied: RECORDS are read as a view of the message, and BUFFERS are written unchanged.
RECORDS = 13
BUFFERS = 14
# Flags: the other bits of a code.
ARRAY = 16
NULLABLE = 32
COMPACT = 64

SIZES = bytes((0, 1, 1, 2, 2, 4, 4, 8, 8, 16))
"""The size in bytes of each kind that has a fixed size."""
LONGEST_STRING = 0x7FFF
"""The maximum number of bytes in a string, in every version. It is the largest length that a non-compact string can
state.
"""

LONGEST_ARRAY = 1_000_000
"""The maximum number of elements in one array of a message that is read."""
MOST_ELEMENTS = 2 * LONGEST_ARRAY
"""The maximum number of elements in all arrays of a message that is read."""
MOST_TAGS = 10_000
"""The maximum number of tagged fields in a struct that is read, or in a request's header. Each also counts as an
element.
"""

_ERROR_CODE = "error_code"
_KIND = cython.declare(cython.int, 15)
_ARRAY = cython.declare(cython.int, ARRAY)
_NULLABLE = cython.declare(cython.int, NULLABLE)
_COMPACT = cython.declare(cython.int, COMPACT)
_INT8 = cython.declare(cython.int, INT8)
_INT16 = cython.declare(cython.int, INT16)
_INT32 = cython.declare(cython.int, INT32)
_UINT16 = cython.declare(cython.int, UINT16)
_UUID = cython.declare(cython.int, UUID)
_STRING = cython.declare(cython.int, STRING)
_BYTES = cython.declare(cython.int, BYTES)
_STRUCT = cython.declare(cython.int, STRUCT)
_RECORDS = cython.declare(cython.int, RECORDS)
_BUFFERS = cython.declare(cython.int, BUFFERS)
_MAX_STRING = cython.declare(cython.Py_ssize_t, LONGEST_STRING)
_MOST_TAGS = cython.declare(cython.Py_ssize_t, MOST_TAGS)
_LONGEST_ARRAY = cython.declare(cython.Py_ssize_t, LONGEST_ARRAY)
# Other threads may run after this many elements of an array; a power of two minus one.
_BREATH = cython.declare(cython.Py_ssize_t, 1023)
# The size of the smallest frame: its size field, and a header without a client id.
_LEAST_FRAME = cython.declare(cython.Py_ssize_t, 14)
_MAX_SHIFT = cython.declare(cython.int, 28)
_FIRST_ROOM = cython.declare(cython.Py_ssize_t, 256)
_SPARE_ROOM = cython.declare(cython.Py_ssize_t, 16384)
_SIZES = cython.declare(bytes, SIZES)
_FORMATS = ("", "?", "b", "h", "H", "i", "I", "q", "d", "16s")
_NUMBERS = tuple(struct.Struct(f">{form}") for form in _FORMATS)


@cython.final
@cython.cclass
class Plan:
    """How one struct is read and written in one version.

    All sequences have one entry for each field of the named tuple `make`. `codes` contains ABSENT for tagged fields and
    for fields that the version does not have; `tag_codes` contains the codes of tagged fields. `inner` contains the
    plan of a field that is a struct or an array of structs, otherwise None. `least` contains the minimum size in bytes
    of one element of the field. `tags` maps each tag to its field's index. `error_at` is the index of the error code,
    or -1 if there is none. `steps` is for the interpreted form (see _steps).
    """

    make: object
    names: tuple
    count: cython.Py_ssize_t
    codes: bytes
    defaults: tuple
    inner: tuple
    least: tuple
    is_flexible: cython.bint
    tag_codes: bytes
    tags: dict
    error_at: cython.Py_ssize_t
    steps: tuple

    def __init__(
        self,
        make: type,
        codes: bytes,
        defaults: tuple,
        inner: tuple,
        least: tuple,
        is_flexible: bool,
        tag_codes: bytes,
        tags: dict,
    ) -> None:
        self.make = make
        self.names = make._fields
        self.count = len(codes)
        self.codes = codes
        self.defaults = defaults
        self.inner = inner
        self.least = least
        self.is_flexible = is_flexible
        self.tag_codes = tag_codes
        self.tags = tags
        named = [i for i, name in enumerate(make._fields) if name.endswith(_ERROR_CODE)]
        self.error_at = named[0] if named else -1
        if not cython.compiled:
            self.steps = _steps(codes)


@cython.final
@cython.cclass
class _Source:
    """The bytes of a message, and the position of the next byte to read.

    `elements` counts the array elements and tagged fields read so far, and must not exceed `most`.
    """

    body: object
    data: cython.p_uchar
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    most: cython.Py_ssize_t
    elements: cython.Py_ssize_t

    def __init__(self, body: memoryview, most: cython.Py_ssize_t = 0) -> None:
        self.body = body
        self.at = 0
        self.most = most
        self.elements = 0
        if cython.compiled:
            self.data = view_data(body, cython.address(self.end))  # noqa: F821 - kernel.pxd
        else:
            self.end = len(body)


@cython.final
@cython.cclass
class _Target:
    """A buffer that grows as it is written. `parts` contains the buffers to send before it, or is None.

    `errors` contains the error codes other than 0 that were written, or is None if there were none.
    """

    parts: list
    errors: list
    buffer: bytearray
    data: cython.p_uchar
    at: cython.Py_ssize_t
    room: cython.Py_ssize_t

    def __init__(self) -> None:
        self.parts = None
        self.errors = None
        self.at = 0
        self.room = 0
        if cython.compiled:
            self.data = cython.NULL
            _make_room(self, _FIRST_ROOM)
        else:
            self.buffer = bytearray()

    def __dealloc__(self) -> None:
        PyMem_Free(self.data)  # noqa: F821 - kernel.pxd


@cython.final
@cython.cclass
class Encoded:
    """Elements that have already been encoded, for use as the value of an array field.

    `buffers` contain `count` elements in a total of `size` bytes.
    """

    count = cython.declare(cython.Py_ssize_t, visibility="public")
    size = cython.declare(cython.Py_ssize_t, visibility="public")
    buffers = cython.declare(list, visibility="public")

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self.buffers = []


@cython.final
@cython.cclass
class Codec:
    """Reads and writes all versions of one message.

    `plan_of(version)` builds the plan for a version. It is called once for each version, and raises an error for an
    unknown version. With `is_exact`, no bytes may follow the end of the message. `elements` is the number of array
    elements in the last message read. `errors` contains the error codes other than 0 in the last message written, or is
    None if there were none.
    """

    elements = cython.declare(cython.Py_ssize_t, visibility="public")
    errors = cython.declare(object, visibility="public")
    plans: list
    plan_of: object
    is_exact: cython.bint
    spare: _Target

    def __init__(self, plan_of: object, last_version: int, is_exact: bool) -> None:
        self.plans = [None] * (last_version + 1)
        self.plan_of = plan_of
        self.is_exact = is_exact
        self.elements = 0
        self.errors = None
        self.spare = _Target()

    def read(
        self, body: memoryview, version: cython.int, most: cython.Py_ssize_t = MOST_ELEMENTS
    ) -> object:
        """Read the message at the beginning of `body`, a contiguous view. Raises MalformedMessage.

        The message's arrays may have a total of `most` elements.
        """
        plan: Plan = _plan(self, version)
        source: _Source = _Source(body, most)
        message = _read_struct(plan, source)
        self.elements = source.elements
        if self.is_exact and source.at != source.end:
            raise MalformedMessage(
                f"{source.end - source.at} bytes follow the end of {plan.make.__name__}"
            )
        return message

    def write(self, message: object, version: cython.int) -> bytes:
        """Return the message's bytes. Raises OverflowError, TypeError or ValueError for a value that does not fit."""
        parts = _written(self, message, version)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def buffers(self, message: object, version: cython.int) -> tuple:
        """Like `write`, but return a tuple of buffers, which includes buffers in the message without copying them."""
        return _written(self, message, version)

    def add_elements(
        self, before: object, elements: object, version: cython.int, path: tuple
    ) -> Encoded:
        """Encode elements of the array that `path`, a sequence of field names, leads to.

        Return them together with the elements in `before`, if given, which precede them.
        """
        encoded: Encoded = Encoded() if before is None else before
        plan: Plan = _plan(self, version)
        depth: cython.Py_ssize_t
        for depth in range(len(path) - 1):
            plan = plan.inner[plan.names.index(path[depth])]
        i: cython.Py_ssize_t = plan.names.index(path[len(path) - 1])
        code: cython.int = plan.codes[i]
        target: _Target = _Target()
        _write_elements(plan, i, code & (_KIND | _COMPACT), elements, target)
        self.errors = target.errors
        parts = [_taken(target)] if target.parts is None else [*target.parts, _taken(target)]
        encoded.count += len(elements)
        encoded.size += sum(map(len, parts))
        encoded.buffers += parts
        return encoded


@cython.cfunc
def _written(codec: Codec, message: object, version: cython.int) -> tuple:
    """Write a message, in the last message's buffer if it is free: a new one takes as long as writing a few fields."""
    target: _Target = codec.spare
    codec.spare = None
    # When interpreted, another thread might run between these two lines.
    if target is None or not cython.compiled:
        target = _Target()
    _write_struct(_plan(codec, version), message, target)
    codec.errors = target.errors
    target.errors = None
    last: bytes = _taken(target)
    parts = (last,) if target.parts is None else (*target.parts, last)
    if target.room <= _SPARE_ROOM:
        target.parts = None
        codec.spare = target
    return parts


@cython.cfunc
def _plan(codec: Codec, version: cython.int) -> Plan:
    if 0 <= version < len(codec.plans):
        plan = codec.plans[version]
        if plan is not None:
            return plan
    plan = codec.plan_of(version)
    codec.plans[version] = plan
    return plan


def hasten(make: type, defaults: tuple) -> None:
    """Let calls to a named tuple's class run in C if the kernel is compiled. `defaults` are the fields' defaults."""
    if cython.compiled:
        make._defaults = defaults
        set_maker(make)  # noqa: F821 - kernel.pxd


# Frames.


def cut(
    data: memoryview, most: cython.Py_ssize_t, header_versions: dict, make: type
) -> tuple[list, cython.Py_ssize_t]:
    """Copy the framed requests at the beginning of `data`. Return them, and the position where they end.

    This stops before a frame that is incomplete or larger than `most` bytes, and before one that needs special
    treatment: its version is not in `header_versions` (by api key << 16 | version), its header has tagged fields, or no
    client sends such frames. `make` is a named tuple of the api key, the version, the correlation id, the client id,
    the header's version, the body as a view, and the frame's size in bytes.
    """
    frames: list = []
    at: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t
    size: cython.longlong
    name_size: cython.longlong
    key: cython.longlong
    version: cython.longlong
    header_version: cython.int
    source: _Source = _Source(data)
    while source.end - at >= _LEAST_FRAME:
        source.at = at
        size = _read_number(_INT32, source)
        if not _LEAST_FRAME - 4 <= size <= min(most, source.end - at - 4):
            break
        key, version = _read_number(_UINT16, source), _read_number(_UINT16, source)
        known = header_versions.get(key << 16 | version)
        if known is None:
            break
        header_version = known
        correlation_id = _read_number(_INT32, source)
        name_size = _read_number(_INT16, source)
        position = source.at + max(name_size, 0) - at - 4
        if name_size < -1 or position + (header_version == 2) > size:
            break
        whole = _copied(source, at + 4, size)
        if header_version == 2:
            if whole[position]:
                break
            position += 1
        client_id = _text(source, source.at, max(name_size, 0))
        at += 4 + size
        frames.append(
            make(
                key,
                version,
                correlation_id,
                client_id,
                header_version,
                memoryview(whole)[position:],
                size,
            )
        )
    return frames, at


@cython.cfunc
def _copied(source: _Source, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> bytes:
    if cython.compiled:
        return PyBytes_FromStringAndSize(  # noqa: F821 - kernel.pxd
            cython.cast(cython.p_char, source.data + at), size
        )
    return bytes(source.body[at : at + size])


@cython.cfunc
def _text(source: _Source, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> object:
    """Decode a string. As in Kafka, invalid UTF-8 becomes U+FFFD, since some clients send arbitrary metadata."""
    if cython.compiled:
        return PyUnicode_DecodeUTF8(  # noqa: F821 - kernel.pxd
            cython.cast(cython.p_char, source.data + at), size, b"replace"
        )
    return str(source.body[at : at + size], "utf-8", "replace")


# Reading.


@cython.cfunc
def _read_struct(plan: Plan, source: _Source) -> object:
    i: cython.Py_ssize_t
    code: cython.int
    if cython.compiled:
        row = new_row(plan.make, plan.count)  # noqa: F821 - kernel.pxd
        for i in range(plan.count):
            code = plan.codes[i]
            value = _read_field(plan, i, code, source) if code else plan.defaults[i]
            set_field(row, i, value)  # noqa: F821 - kernel.pxd
    else:
        row = list(plan.defaults)
        _read_steps(plan, row, source)
    if plan.is_flexible:
        _read_tags(plan, row, source)
    return row if cython.compiled else tuple.__new__(plan.make, row)


@cython.cfunc
def _read_field(plan: Plan, i: cython.Py_ssize_t, code: cython.int, source: _Source) -> object:
    kind: cython.int = code & _KIND
    if code & _ARRAY:
        return _read_array(plan, i, code, source)
    if kind <= _UUID:
        return _read_number(kind, source)
    if kind == _STRUCT:
        if code & _NULLABLE and _is_null_struct(source):
            return None
        return _read_struct(plan.inner[i], source)
    return _read_text(plan, i, code, source)


@cython.cfunc
def _read_number(kind: cython.int, source: _Source) -> object:
    at: cython.Py_ssize_t = source.at
    source.at = at + _SIZES[kind]
    if source.at > source.end:
        raise _ends_early(source)
    if cython.compiled:
        return get_number(source.data + at, kind)  # noqa: F821 - kernel.pxd
    return _NUMBERS[kind].unpack_from(source.body, at)[0]


@cython.cfunc
@cython.exceptval(-2, check=False)
def _is_null_struct(source: _Source) -> cython.int:
    marker: cython.longlong = _read_number(_INT8, source)
    return marker < 0


@cython.cfunc
def _read_text(plan: Plan, i: cython.Py_ssize_t, code: cython.int, source: _Source) -> object:
    kind: cython.int = code & _KIND
    size: cython.longlong = _read_length(plan, i, code, source)
    at: cython.Py_ssize_t = source.at
    if size < 0:
        return None
    if size > source.end - at:
        raise MalformedMessage(
            f"{_named(plan, i)} has {size} bytes, but only {source.end - at} are left"
        )
    source.at = at + size
    if kind != _STRING:
        if kind == _BYTES:
            return _copied(source, at, size)
        view = source.body[at : at + size]
        return view if kind == _RECORDS else (view,) if size else ()
    if size > _MAX_STRING:
        raise MalformedMessage(
            f"{_named(plan, i)} has {size} bytes; a string may have at most {LONGEST_STRING}"
        )
    return _text(source, at, size)


@cython.cfunc
@cython.exceptval(-2, check=False)
def _read_length(
    plan: Plan, i: cython.Py_ssize_t, code: cython.int, source: _Source
) -> cython.longlong:
    length: cython.longlong
    if code & _COMPACT:
        length = _read_uvarint(source) - 1
    elif code & _KIND == _STRING and not code & _ARRAY:
        length = _read_number(_INT16, source)
    else:
        length = _read_number(_INT32, source)
    if length < 0:
        if not code & _NULLABLE:
            raise MalformedMessage(f"{_named(plan, i)} is null, which is not allowed")
        return -1
    return length


@cython.cfunc
def _read_array(plan: Plan, i: cython.Py_ssize_t, code: cython.int, source: _Source) -> object:
    count: cython.longlong = _read_length(plan, i, code, source)
    least: cython.longlong = plan.least[i]
    element: cython.int = code & (_KIND | _COMPACT)
    if count < 0:
        return None
    if count * least > source.end - source.at:
        raise MalformedMessage(
            f"{_named(plan, i)} has {count} elements, more than {source.end - source.at} bytes can hold"
        )
    source.elements += count
    if count > _LONGEST_ARRAY or source.elements > source.most:
        raise MalformedMessage(
            f"with {_named(plan, i)} it has {source.elements} elements, more than the allowed "
            f"{min(source.most, LONGEST_ARRAY)}"
        )
    if not cython.compiled and element & _KIND < _UUID:
        at = source.at
        source.at = at + count * least
        return struct.unpack_from(f">{count}{_FORMATS[element & _KIND]}", source.body, at)
    return _read_elements(plan, i, element, count, source)


@cython.cfunc
def _read_elements(
    plan: Plan, i: cython.Py_ssize_t, element: cython.int, count: cython.longlong, source: _Source
) -> tuple:
    j: cython.longlong
    values: list = []
    is_struct: cython.bint = element & _KIND == _STRUCT
    inner: Plan = plan.inner[i]
    for j in range(count):
        values.append(
            _read_struct(inner, source) if is_struct else _read_field(plan, i, element, source)
        )
        if cython.compiled and j & _BREATH == _BREATH:
            breathe()  # noqa: F821 - kernel.pxd
    return tuple(values)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _read_tags(plan: Plan, row: object, source: _Source) -> cython.int:
    """Read the known tagged fields, and skip the others, as KIP-482 requires."""
    end: cython.Py_ssize_t
    i: cython.Py_ssize_t
    size: cython.longlong
    left: cython.longlong = _read_uvarint(source)
    source.elements += left
    if left > _MOST_TAGS or source.elements > source.most:
        raise _too_many_tags(left)
    while left > 0:
        left -= 1
        tag: cython.longlong = _read_uvarint(source)
        size = _read_uvarint(source)
        if size > source.end - source.at:
            raise _ends_early(source)
        end = source.at + size
        if tag not in plan.tags:
            source.at = end
            continue
        i = plan.tags[tag]
        value = _read_field(plan, i, plan.tag_codes[i], source)
        if source.at != end:
            raise MalformedMessage(f"{_named(plan, i)} does not fill the {size} bytes of its tag")
        if cython.compiled:
            set_field(row, i, value)  # noqa: F821 - kernel.pxd
        else:
            row[i] = value
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _read_uvarint(source: _Source) -> cython.longlong:
    value: cython.longlong = 0
    shift: cython.int = 0
    byte: cython.longlong
    while True:
        if source.at >= source.end:
            raise _ends_early(source)
        byte = source.data[source.at] if cython.compiled else source.body[source.at]
        source.at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > _MAX_SHIFT:
            raise MalformedMessage("a varint is longer than 32 bits")


@cython.cfunc
def _ends_early(source: _Source) -> object:
    return MalformedMessage(f"the message ends early, after {source.end} bytes")


@cython.cfunc
def _too_many_tags(count: cython.Py_ssize_t) -> object:
    return MalformedMessage(f"it has {count} tagged fields, more than the allowed {MOST_TAGS}")


def after_tags(data: memoryview, position: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position after the tagged fields at `position`, all of which are unknown. Raises MalformedMessage."""
    source: _Source = _Source(data)
    size: cython.longlong
    source.at = position
    left: cython.longlong = _read_uvarint(source)
    if left > _MOST_TAGS:
        raise _too_many_tags(left)
    while left > 0:
        left -= 1
        _read_uvarint(source)
        size = _read_uvarint(source)
        if size > source.end - source.at:
            raise _ends_early(source)
        source.at += size
    return source.at


@cython.cfunc
def _named(plan: Plan, i: cython.Py_ssize_t) -> object:
    return f"{plan.make.__name__}.{plan.names[i]}"


# Writing.


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_struct(plan: Plan, message: object, target: _Target) -> cython.int:
    i: cython.Py_ssize_t
    code: cython.int
    if type(message) is not plan.make:
        raise TypeError(f"expected a {plan.make.__name__}, not a {type(message).__name__}")
    row: tuple = cython.cast(tuple, message) if cython.compiled else message
    if plan.error_at >= 0 and row[plan.error_at]:
        if target.errors is None:
            target.errors = []
        target.errors.append(row[plan.error_at])
    if cython.compiled:
        for i in range(plan.count):
            code = plan.codes[i]
            if code:
                _write_field(plan, i, code, row[i], target)
    else:
        _write_steps(plan, row, target)
    if plan.is_flexible:
        if plan.tags:
            _write_tags(plan, row, target)
        else:
            _write_uvarint(0, target)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_field(
    plan: Plan, i: cython.Py_ssize_t, code: cython.int, value: object, target: _Target
) -> cython.int:
    kind: cython.int = code & _KIND
    if code & _ARRAY:
        _write_array(plan, i, code, value, target)
    elif kind <= _UUID:
        _write_number(kind, value, target)
    elif kind == _STRUCT:
        if code & _NULLABLE:
            _write_number(_INT8, -1 if value is None else 1, target)
            if value is None:
                return 0
        _write_struct(plan.inner[i], value, target)
    else:
        _write_text(plan, i, code, value, target)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_number(kind: cython.int, value: object, target: _Target) -> cython.int:
    size: cython.Py_ssize_t = _SIZES[kind]
    if cython.compiled:
        if target.room - target.at < size:
            _make_room(target, size)
        put_number(target.data + target.at, kind, value)  # noqa: F821 - kernel.pxd
        target.at += size
        return 0
    if kind == _UUID and len(value) != size:
        raise ValueError("an id must have 16 bytes")
    try:
        target.buffer += _NUMBERS[kind].pack(value)
    except struct.error:
        raise OverflowError(f"{value} does not fit {size} bytes") from None
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_text(
    plan: Plan, i: cython.Py_ssize_t, code: cython.int, value: object, target: _Target
) -> cython.int:
    size: cython.Py_ssize_t = 0
    data: cython.p_char
    if value is None:
        return _write_length(plan, i, code, -1, target)
    if code & _KIND == _BUFFERS:
        return _write_buffers(plan, i, code, value, target)
    if code & _KIND != _STRING:
        _write_length(plan, i, code, len(value), target)
        return _write_raw(value, target)
    if cython.compiled:
        data = cython.cast(cython.p_char, PyUnicode_AsUTF8AndSize(value, cython.address(size)))  # noqa: F821
        _check_string(plan, i, size)
        _write_length(plan, i, code, size, target)
        if target.room - target.at < size:
            _make_room(target, size)
        memcpy(target.data + target.at, data, size)  # noqa: F821 - kernel.pxd
        target.at += size
        return 0
    encoded = value.encode()
    _check_string(plan, i, len(encoded))
    _write_length(plan, i, code, len(encoded), target)
    target.buffer += encoded
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_buffers(
    plan: Plan, i: cython.Py_ssize_t, code: cython.int, buffers: object, target: _Target
) -> cython.int:
    size: cython.Py_ssize_t = 0
    for buffer in buffers:
        size += len(buffer)
    _write_length(plan, i, code, size, target)
    if size:
        if target.parts is None:
            target.parts = []
        target.parts.append(_taken(target))
        target.parts.extend(buffers)
    return 0


@cython.cfunc
def _taken(target: _Target) -> bytes:
    if cython.compiled:
        taken = PyBytes_FromStringAndSize(  # noqa: F821 - kernel.pxd
            cython.cast(cython.p_char, target.data), target.at
        )
        target.at = 0
        return taken
    written = bytes(target.buffer)
    target.buffer.clear()
    return written


@cython.cfunc
@cython.exceptval(-1, check=False)
def _check_string(plan: Plan, i: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.int:
    if size > _MAX_STRING:
        raise ValueError(
            f"{_named(plan, i)} has {size} bytes; a string may have at most {LONGEST_STRING}"
        )
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_length(
    plan: Plan, i: cython.Py_ssize_t, code: cython.int, length: cython.longlong, target: _Target
) -> cython.int:
    if length < 0 and not code & _NULLABLE:
        raise ValueError(f"{_named(plan, i)} is null, which is not allowed")
    if code & _COMPACT:
        return _write_uvarint(length + 1, target)
    if code & _KIND == _STRING and not code & _ARRAY:
        return _write_number(_INT16, length, target)
    return _write_number(_INT32, length, target)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_array(
    plan: Plan, i: cython.Py_ssize_t, code: cython.int, values: object, target: _Target
) -> cython.int:
    element: cython.int = code & (_KIND | _COMPACT)
    if values is None:
        return _write_length(plan, i, code, -1, target)
    if isinstance(values, Encoded):
        return _write_encoded(plan, i, code, values, target)
    _write_length(plan, i, code, len(values), target)
    return _write_elements(plan, i, element, values, target)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_elements(
    plan: Plan, i: cython.Py_ssize_t, element: cython.int, values: object, target: _Target
) -> cython.int:
    j: cython.Py_ssize_t
    is_struct: cython.bint = element & _KIND == _STRUCT
    inner: Plan = plan.inner[i]
    for j, value in enumerate(values):
        if is_struct:
            _write_struct(inner, value, target)
        else:
            _write_field(plan, i, element, value, target)
        if cython.compiled and j & _BREATH == _BREATH:
            breathe()  # noqa: F821 - kernel.pxd
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_encoded(
    plan: Plan, i: cython.Py_ssize_t, code: cython.int, encoded: Encoded, target: _Target
) -> cython.int:
    _write_length(plan, i, code, encoded.count, target)
    if target.parts is None:
        target.parts = []
    target.parts.append(_taken(target))
    target.parts.extend(encoded.buffers)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_tags(plan: Plan, row: tuple, target: _Target) -> cython.int:
    i: cython.Py_ssize_t
    said: cython.int = 0
    for i in plan.tags.values():
        if row[i] is not plan.defaults[i] and row[i] != plan.defaults[i]:
            said += 1
    _write_uvarint(said, target)
    if not said:
        return 0
    for tag, i in plan.tags.items():
        if row[i] is plan.defaults[i] or row[i] == plan.defaults[i]:
            continue
        part: _Target = _Target()
        _write_field(plan, i, plan.tag_codes[i], row[i], part)
        value: bytes = _taken(part)
        _write_uvarint(tag, target)
        _write_uvarint(len(value), target)
        _write_raw(value, target)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_raw(value: object, target: _Target) -> cython.int:
    size: cython.Py_ssize_t = len(value)
    if cython.compiled:
        given: bytes = bytes(value)
        if target.room - target.at < size:
            _make_room(target, size)
        memcpy(target.data + target.at, cython.cast(cython.p_char, given), size)  # noqa: F821
        target.at += size
        return 0
    target.buffer += value
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _write_uvarint(value: cython.longlong, target: _Target) -> cython.int:
    if cython.compiled:
        if target.room - target.at < 10:
            _make_room(target, 10)
        while value > 0x7F:
            target.data[target.at] = (value & 0x7F) | 0x80
            target.at += 1
            value >>= 7
        target.data[target.at] = value
        target.at += 1
        return 0
    while value > 0x7F:
        target.buffer.append(value & 0x7F | 0x80)
        value >>= 7
    target.buffer.append(value)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def _make_room(target: _Target, size: cython.Py_ssize_t) -> cython.int:
    room: cython.Py_ssize_t = max(2 * target.room, target.at + size)
    data: cython.p_uchar = cython.cast(cython.p_uchar, PyMem_Realloc(target.data, room))  # noqa: F821
    if data == cython.NULL:
        raise MemoryError
    target.data = data
    target.room = room
    return 0


# When interpreted, a call for each number takes too long, so adjacent numbers are read and written together.

if not cython.compiled:

    def _steps(codes: bytes) -> tuple:
        """Return (first field, end, code, struct) for each run of numbers, and for each other field in the version.

        A run is read or written by one call to its struct. The struct is None for other fields, and for ids.
        """
        steps: list = []
        for i, code in enumerate(codes):
            form = _FORMATS[code & _KIND] if 0 < code & (_KIND | _ARRAY) < _UUID else ""
            if form and steps and steps[-1][1] == i and steps[-1][3]:
                steps[-1][1] = i + 1
                steps[-1][3] += form
            elif code:
                steps.append([i, i + 1, code, form])
        return tuple(
            (first, end, code, struct.Struct(f">{form}") if form else None)
            for first, end, code, form in steps
        )

    def _read_steps(plan: Plan, row: list, source: _Source) -> None:
        for first, end, code, numbers in plan.steps:
            if numbers is None:
                row[first] = _read_field(plan, first, code, source)
                continue
            at = source.at
            source.at = at + numbers.size
            if source.at > source.end:
                raise _ends_early(source)
            row[first:end] = numbers.unpack_from(source.body, at)

    def _write_steps(plan: Plan, row: tuple, target: _Target) -> None:
        for first, end, code, numbers in plan.steps:
            if numbers is None:
                _write_field(plan, first, code, row[first], target)
                continue
            try:
                target.buffer += numbers.pack(*row[first:end])
            except struct.error:  # separately, so that the error names the number
                for i in range(first, end):
                    _write_field(plan, i, plan.codes[i], row[i], target)
