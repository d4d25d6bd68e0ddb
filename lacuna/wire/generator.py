"""Generates `lacuna.wire.messages` and `.records` from Kafka's definitions: `python -m lacuna.wire.generator`.

The kafka-clients jar contains a JSON file for each message (github.com/apache/kafka, clients/src/main/resources,
Apache-2.0). Versions that KAFKA has dropped are taken from BEFORE_KAFKA_4, the last release that had them; fields that
exist only in these versions keep their place. Maven downloads the jars, and ruff formats the output.

To generate the messages of another API, add its name to APIS and run this module. RECORDS lists the kinds of records in
Kafka's internal topics. For each kind, there is a definition of the key and one of the value, in which `api_key` is the
version of the key.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

KAFKA: Final = "4.4.0"
BEFORE_KAFKA_4: Final = "3.9.1"
#: The APIs of each module. If two structs in a module have the same name, the earlier API's struct keeps it.
APIS: Final = {
    "client_quotas": ("AlterClientQuotas", "DescribeClientQuotas"),
    "cluster": (
        "AlterPartitionReassignments",
        "AlterReplicaLogDirs",
        "ApiVersions",
        "DescribeCluster",
        "DescribeLogDirs",
        "DescribeQuorum",
        "ElectLeaders",
        "ListPartitionReassignments",
        "UnregisterBroker",
        "UpdateFeatures",
    ),
    "configs": (
        "IncrementalAlterConfigs",
        "AlterConfigs",
        "DescribeConfigs",
        "ListConfigResources",
    ),
    "consumer_groups": ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    "fetch": ("OffsetForLeaderEpoch", "Fetch", "ListOffsets"),
    "groups": (
        "DeleteGroups",
        "DescribeGroups",
        "FindCoordinator",
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
        "ListGroups",
        "SyncGroup",
    ),
    "offsets": ("OffsetCommit", "OffsetDelete", "OffsetFetch", "TxnOffsetCommit"),
    "produce": ("Produce",),
    "security": (
        "AlterUserScramCredentials",
        "CreateAcls",
        "CreateDelegationToken",
        "DeleteAcls",
        "DescribeAcls",
        "DescribeDelegationToken",
        "DescribeUserScramCredentials",
        "ExpireDelegationToken",
        "RenewDelegationToken",
        "SaslAuthenticate",
        "SaslHandshake",
    ),
    "share_groups": (
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
        "DescribeShareGroupOffsets",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
    ),
    "share_records": ("ShareAcknowledge", "ShareFetch"),
    "streams_groups": (
        "StreamsGroupDescribe",
        "StreamsGroupHeartbeat",
        "StreamsGroupTopologyDescriptionUpdate",
    ),
    "telemetry": ("GetTelemetrySubscriptions", "PushTelemetry"),
    "topics": (
        "CreatePartitions",
        "CreateTopics",
        "DeleteRecords",
        "DeleteTopics",
        "DescribeTopicPartitions",
        "Metadata",
    ),
    "transactions": (
        "AddOffsetsToTxn",
        "AddPartitionsToTxn",
        "DescribeProducers",
        "DescribeTransactions",
        "EndTxn",
        "InitProducerId",
        "ListTransactions",
        "WriteTxnMarkers",
    ),
}
#: Kinds of records, by the jar that has their definitions.
RECORDS: Final = {
    "kafka-group-coordinator": (
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "GroupMetadata",
        "OffsetCommit",
    ),
    "kafka-transaction-coordinator": ("TransactionLog",),
}
#: Requests that no extra bytes may follow, since these could be records or partitions that would be ignored silently.
EXACT: Final = ("FetchRequest", "ProduceRequest")
MESSAGES: Final = Path(__file__).parent / "messages"
RECORD_MESSAGES: Final = Path(__file__).parent / "records.py"

_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
#: The defaults of Kafka's types, for fields without one. In lacuna.wire.layout, the types' names are capitalized.
_DEFAULTS: Final = {
    "bool": "False",
    "int8": "0",
    "int16": "0",
    "uint16": "0",
    "int32": "0",
    "uint32": "0",
    "int64": "0",
    "float64": "0.0",
    "uuid": "ZERO_UUID",
    "string": '""',
    "bytes": 'b""',
    "records": "None",
    "buffers": "()",
}
#: The parts of a field's definition on which a class depends.
_OF_LAYOUT: Final = (
    "name",
    "type",
    "versions",
    "nullableVersions",
    "tag",
    "taggedVersions",
    "default",
)
_INTEGERS: Final = {name for name, value in _DEFAULTS.items() if value == "0"}

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, including both ends. `last` is None if it has no end."""

    first: int
    last: int | None

    @classmethod
    def of(cls, text: str) -> "Versions":
        """Parse a range in Kafka's notation: "3", "0-4" or "2+"."""
        if text.endswith("+"):
            return cls(int(text[:-1]), None)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


@dataclass(frozen=True, slots=True)
class Part:
    """One class of a generated module: its name, and its fields as Kafka defines them.

    `structs` maps the fields that are structs or arrays of structs to the names of the structs' classes.
    """

    name: str
    fields: Sequence[Definition]
    structs: Mapping[str, str]


@dataclass(slots=True)
class Module:
    """The contents of a generated file: the parts of a request and a response, inner ones first."""

    parts: list[Part] = field(default_factory=list)

    def add(self, name: str, fields: Sequence[Definition], commons: Definition, owner: str) -> str:
        """Add a struct and the structs inside it, and return the name of the struct's class.

        `commons` contains the message's shared structs by name. If a different struct already has the name, `owner`,
        the message's name, is put in front of it.
        """
        structs = {
            each["name"]: self.add(
                inner := element(each["type"]),
                each.get("fields") or commons[inner],
                commons,
                owner,
            )
            for each in fields
            if is_struct(each["type"])
        }
        taken = {part.name: part for part in self.parts}
        if name in taken and not is_same(taken[name], fields, structs):
            name = f"{owner}{name}"
        if name not in taken:
            self.parts.append(Part(name, fields, structs))
        return name


def snake(name: str) -> str:
    return _WORD_START.sub("_", name).lower()


def attribute(each: Definition) -> str:
    """Return a field's Python name. An underscore is added to names that would hide a method of tuples, such as
    `index`.
    """
    name = snake(each["name"])
    return f"{name}_" if name in dir(tuple) else name


def element(kind: str) -> str:
    return kind.removeprefix("[]")


def is_same(part: Part, fields: Sequence[Definition], structs: Mapping[str, str]) -> bool:
    """Whether a part has the same layout as these fields, regardless of their descriptions."""
    return part.structs == structs and _layout(part.fields) == _layout(fields)


def _layout(fields: Sequence[Definition]) -> list[Definition]:
    return [{key: each[key] for key in each if key in _OF_LAYOUT} for each in fields]


def is_struct(kind: str) -> bool:
    return element(kind) not in _DEFAULTS


def bring_jar(version: str, folder: Path, name: str = "kafka-clients") -> Path:
    """Download one of Kafka's jars from Maven Central to `folder`, and return its path.

    Raises SystemExit if Maven is not installed, and CalledProcessError if the download fails.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("Maven (mvn) is needed to fetch Kafka's definitions: install it")
    artifact = f"-Dartifact=org.apache.kafka:{name}:{version}"
    subprocess.run([maven, "-q", "-B", _COPY, artifact, f"-DoutputDirectory={folder}"], check=True)
    return folder / f"{name}-{version}.jar"


def definition(jar: zipfile.ZipFile, name: str) -> Definition:
    """Read a message's definition from the jar. Raises KeyError if the jar has none."""
    text = jar.read(f"common/message/{name}.json").decode()
    found: Definition = json.loads(_COMMENT.sub("", text))
    return found


def of_all_versions(
    new: zipfile.ZipFile, old: zipfile.ZipFile, api: str
) -> tuple[Definition, Definition]:
    """Return the request and the response of an API, including versions that only the old release has."""
    request, response = (definition(new, f"{api}{kind}") for kind in ("Request", "Response"))
    try:
        before = definition(old, f"{api}Request")
    except KeyError:
        return of_valid_versions(request), of_valid_versions(response)
    if not is_preview(before):
        request = joined(request, before)
        response = joined(response, definition(old, f"{api}Response"))
    return of_valid_versions(request), of_valid_versions(response)


def is_preview(request: Definition) -> bool:
    """Whether a request has only one version, which has not been released."""
    valid = Versions.of(request["validVersions"])
    return valid.first == valid.last and bool(request.get("latestVersionUnstable"))


def joined(new: Definition, old: Definition) -> Definition:
    """Return `new`, extended by the earlier versions that only `old` has."""
    valid, before = Versions.of(new["validVersions"]), Versions.of(old["validVersions"])
    if before.first >= valid.first:
        return new
    return {
        **new,
        "validVersions": f"{before.first}-{valid.last}",
        "fields": joined_fields(new["fields"], old["fields"]),
    }


def joined_fields(new: Sequence[Definition], old: Sequence[Definition]) -> list[Definition]:
    """Return the fields of `new` and those that only `old` has, each in its place."""
    found = list(new)
    place = 0
    for each in old:
        names = [other["name"] for other in found]
        if each["name"] not in names:
            found.insert(place, each)
            place += 1
            continue
        place = names.index(each["name"])
        if "fields" in each:
            inner = joined_fields(found[place].get("fields", ()), each["fields"])
            found[place] = {**found[place], "fields": inner}
        place += 1
    return found


def of_valid_versions(message: Definition) -> Definition:
    """Return a message without the parts that exist only before its first valid version."""
    first = Versions.of(message["validVersions"]).first
    return {**message, "fields": _since(first, message["fields"])}


def _since(first: int, fields: Sequence[Definition]) -> list[Definition]:
    found = []
    for each in fields:
        if not _is_used(first, each.get("versions", "0+")):
            continue
        kept = {**each}
        if not _is_used(first, each.get("nullableVersions", "0+")):
            del kept["nullableVersions"]
        if "fields" in each:
            kept["fields"] = _since(first, each["fields"])
        found.append(kept)
    return found


def _is_used(first: int, versions: str) -> bool:
    last = Versions.of(versions).last
    return last is None or last >= first


def with_buffers(fields: Sequence[Definition]) -> list[Definition]:
    """Return a response's fields, with records as buffers, which are written without being copied."""
    return [
        each
        | ({"type": "buffers"} if each["type"] == "records" else {})
        | ({"fields": with_buffers(each["fields"])} if "fields" in each else {})
        for each in fields
    ]


def module_text(title: str, bodies: Iterable[str]) -> str:
    body = "\n\n".join(bodies)
    return (
        f'"""{title}. Written by lacuna.wire.generator, not by hand."""\n{imports(body)}\n{body}\n'
    )


def body_text(apis: Sequence[tuple[Definition, Definition]]) -> str:
    """Return the classes and messages for requests and responses, or for the keys and values of records."""
    module = Module()
    for message in chain.from_iterable(apis):
        commons = {each["name"]: each["fields"] for each in message.get("commonStructs", ())}
        module.add(message["name"], message["fields"], commons, message["name"])
    texts = ["\n".join(class_lines(part)) for part in module.parts]
    for request, response in apis:
        texts += message_texts(request, response)
    return "\n\n".join(texts)


def imports(body: str) -> str:
    ours = ("In", "Message", "ZERO_UUID", "messages", *map(str.capitalize, _DEFAULTS))
    modules = {
        "collections.abc": ("Sequence",),
        "typing": ("Annotated", "Final", "NamedTuple"),
        "lacuna.wire.layout": ours,
    }
    words = set(re.findall(r"\w+", body))
    lines = [
        f"from {module} import {', '.join(used)}"
        for module, names in modules.items()
        if (used := [name for name in names if name in words])
    ]
    return "\n".join([*lines, ""])


def class_lines(part: Part) -> Iterator[str]:
    yield f"class {part.name}(NamedTuple):"
    for each in part.fields:
        yield f"    {attribute(each)}: {annotation(part, each)} = {default(part, each)}"


def annotation(part: Part, each: Definition) -> str:
    kind = element(each["type"])
    shape = part.structs[each["name"]] if is_struct(kind) else kind.capitalize()
    if kind != each["type"]:
        shape = f"Sequence[{shape}]"
    if "nullableVersions" in each:
        shape = f"{shape} | None"
    limits = ", ".join(arguments(part, each))
    return f"Annotated[{shape}, In({limits})]" if limits else shape


def default(part: Part, each: Definition) -> str:
    """Return the source of a field's default, which is the field's value in versions without it."""
    kind, given = each["type"], each.get("default", "")
    if given in ("null", None):
        return "None"
    if kind != element(kind):
        return "()"
    if is_struct(kind):
        return f"{part.structs[each['name']]}()"
    if given == "":
        return _DEFAULTS[kind]
    if kind in _INTEGERS:
        return str(int(str(given), 0))
    return {"true": "True", "false": "False"}.get(str(given).lower(), repr(given))


def message_texts(request: Definition, response: Definition) -> list[str]:
    """Return the statements that create the messages of a request and its response from their classes.

    There is a single statement if both have the same versions.
    """
    asked, answered = message_arguments(request), message_arguments(response)
    names = [snake(each["name"]).upper() for each in (request, response)]
    exact = ", is_exact=True" if request["name"] in EXACT else ""
    if asked == answered:
        both = f"{request['name']}, {response['name']}, {asked}{exact}"
        return [f"{', '.join(names)} = messages({both})"]
    return [
        f"{name}: Final = Message({each['name']}, {given})"
        for name, each, given in zip(names, (request, response), (asked, answered), strict=True)
    ]


def message_arguments(message: Definition) -> str:
    valid, flexible = Versions.of(message["validVersions"]), message["flexibleVersions"]
    first = None if flexible == "none" else Versions.of(flexible).first
    versions = f"versions=({valid.first}, {valid.last})"
    return f"api_key={message['apiKey']}, {versions}, first_flexible={first}"


def arguments(part: Part, each: Definition) -> Iterator[str]:
    """Yield the arguments of `In` for a field. Raises ValueError if null is allowed only up to some version."""
    versions = Versions.of(each.get("versions", "0+"))
    if versions.first:
        yield f"since={versions.first}"
    if versions.last is not None:
        yield f"until={versions.last}"
    if "nullableVersions" in each:
        nullable = Versions.of(each["nullableVersions"])
        if nullable.last not in (None, versions.last):
            raise ValueError(
                f"{part.name}.{each['name']} may no longer be null after v{nullable.last}"
            )
        if nullable.first > versions.first:
            yield f"null_since={nullable.first}"
    if "tag" in each:
        yield f"tag={each['tag']}"


def write(jars: Iterable[Path], folder: Path) -> None:
    """Write formatted files for APIS to `folder`. `jars` contains the jars of KAFKA and BEFORE_KAFKA_4."""
    new, old = (zipfile.ZipFile(jar) for jar in jars)
    with new, old:
        for module, apis in APIS.items():
            messages = [
                (request, response | {"fields": with_buffers(response["fields"])})
                for request, response in (of_all_versions(new, old, api) for api in apis)
            ]
            text = module_text(module.replace("_", " ").capitalize(), [body_text(messages)])
            (folder / f"{module}.py").write_text(text, encoding="utf-8")
    _tidy(folder)


def write_records(jars: Mapping[str, Path], file: Path) -> None:
    """Write a formatted file with all RECORDS. `jars` maps the names used in RECORDS to KAFKA's jars."""
    bodies = []
    for name, kinds in RECORDS.items():
        with zipfile.ZipFile(jars[name]) as jar:
            for kind in kinds:
                key, value = (definition(jar, f"{kind}{part}") for part in ("Key", "Value"))
                bodies.append(body_text([(key, value)]))
    file.write_text(module_text("Records of internal topics", bodies), encoding="utf-8")
    _tidy(file)


def _tidy(written: Path) -> None:
    for command in (("check", "--select=I", "--fix"), ("format",)):
        subprocess.run([sys.executable, "-m", "ruff", *command, "-q", str(written)], check=True)


def main() -> int:
    """Download the jars and write the messages and records. Return 0."""
    with tempfile.TemporaryDirectory(prefix="kafka-clients-") as folder:
        jars = [bring_jar(version, Path(folder)) for version in (KAFKA, BEFORE_KAFKA_4)]
        write(jars, MESSAGES)
        names = {name: bring_jar(KAFKA, Path(folder), name) for name in RECORDS}
        write_records(names, RECORD_MESSAGES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
