"""The text that `lacuna up` prints once it serves clients."""

from pathlib import Path
from typing import Final

from lacuna.agent.security.listeners import Protocol
from lacuna.cli.agent_options import AgentOptions
from lacuna.cli.options import DEFAULT_BOOTSTRAP
from lacuna.cli.running import READY
from lacuna.logstore.objects import folder_url
from lacuna.operating.journals import SharedJournalOptions
from lacuna.operating.moto import CREDENTIALS

#: The name of the properties file in the lines for clients that must log in.
_CLIENT: Final = "client.properties"


def greeting(
    options: AgentOptions,
    data: Path,
    journal: SharedJournalOptions | None,
    bootstrap: str,
    *,
    keeps_nothing: bool,
    is_new: bool = False,
    console: str = "",
) -> str:
    """Return the lines that describe the address, the data, the first commands to try, and how to stop.

    The first line, `bootstrap: HOST:PORT`, is meant for scripts. `keeps_nothing` means that the data is in memory, as
    with --moto. `is_new` means that the folder had no journal. `console` is the web console's HOST:PORT, or "".
    """
    there = "" if bootstrap == DEFAULT_BOOTSTRAP.addresses else f" -b {bootstrap}"
    login = _login(options)
    there += f" --command-config {_CLIENT}" * bool(login)
    lines = [
        f"{READY}{bootstrap}",
        f"serves  Kafka clients at {bootstrap}; {_topics(options)}",
        f"data    {_data(options, data, journal, is_new=is_new)}",
        f"try     lacuna topics list{there}   or   lacuna demo{there}",
        "stop    Ctrl-C; "
        + (
            "all data is then lost"
            if keeps_nothing
            else "the next start continues with the same data"
        ),
    ]
    if login:
        lines.insert(4, f"        {_CLIENT}: {login}")
    if console:
        lines.insert(3, f"console http://{console}")
    if keeps_nothing:
        keys = " ".join(f"{name}={value}" for name, value in CREDENTIALS.items())
        lines.append(f"jobs    compact, export and verify need --data {data} and {keys}")
    if options.health:
        lines.append(f"health  http://{options.health}/readyz")
    return "\n".join(lines)


def _login(options: AgentOptions) -> str:
    """Return the properties that a client needs for the first listener, or "" if it needs none."""
    protocol = options.listeners()[0].protocol
    if protocol is Protocol.PLAINTEXT:
        return ""
    needed = [f"security.protocol={protocol.value}"]
    if protocol.has_tls:
        needed += ["ssl.ca.location=…"]
    if protocol.has_sasl:
        mechanisms = str(options.configuration.chosen["sasl.enabled.mechanisms"].value)
        needed += [f"sasl.mechanism={mechanisms.partition(',')[0].strip()}"]
        needed += ["sasl.username=…", "sasl.password=…"]
    return ", ".join(needed)


def _topics(options: AgentOptions) -> str:
    settings = options.parts().agent
    if not settings.auto_create_topics:
        return "create topics with `lacuna topics create`"
    count = settings.num_partitions
    return f"topics are created when first used, with {count} partition{'s' if count > 1 else ''}"


def _data(
    options: AgentOptions, data: Path, journal: SharedJournalOptions | None, *, is_new: bool
) -> str:
    if journal is not None:
        is_there = journal.kind.is_in_bucket
        place = "records and journal" if is_there else "records"
        where = "" if is_there else f", journal in {journal.name}"
        return f"{place} in {options.url}{where}"
    if options.url.partition("?")[0] == folder_url(data / "objects"):
        new = "new: " * is_new
        return f"{data.resolve()} ({new}records and journal)"
    return f"records in {options.url}, journal in {data.resolve()}"
