"""The faults of one simulation: a list drawn from the seed, which can be replayed without some of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lacuna.controlplane.journal.place import BUCKET
from tests.simulation import database, importers
from tests.simulation.journal import DiskWeather
from tests.simulation.planes import DATABASE, DISK, SHARED, LoneControlPlane, SharedPlanes
from tests.simulation.store import MISSING

if TYPE_CHECKING:
    from tests.simulation.world import Form, World


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, target, time and duration (in simulated seconds), and magnitude."""

    number: int
    at: float
    kind: str
    target: str
    lasts: float
    rate: float

    def __str__(self) -> str:
        text = f"{self.number}: {self.at:.3f} s, {self.kind} {self.target}".rstrip()
        if self.lasts:
            text += f", {self.lasts:.2f} s"
        return text + (f", rate {self.rate:.2f}" if self.rate else "")


@dataclass(frozen=True, slots=True)
class Machines:
    """The names of the possible targets of faults."""

    planes: Sequence[str]
    agents: Sequence[str]
    clients: Sequence[str]

    @property
    def servers(self) -> Sequence[str]:
        """Return all servers."""
        return [*self.planes, *self.agents]


#: As a target: the control plane that leads when the fault begins.
LEADER: Final = "leader"
#: How often a clock that drifts is moved.
DRIFT_STEP: Final = 0.1
#: How far a clock can be ahead and be believed: less than an hour (ADR 53). One that leaps is ahead by days.
AHEAD_MS: Final = 3_500_000
LEAP_MS: Final = 60 * 86_400_000

Apply = Callable[["World", Fault], None]
Target = Callable[[random.Random, Machines], str]


def _host(call: str) -> Apply:
    def apply(world: World, fault: Fault) -> None:
        getattr(world.host(fault.target), call)(fault.lasts)

    return apply


def _for_a_while(
    world: World, fault: Fault, weather: object, name: str, value: float | bool, calm: float | bool
) -> None:
    setattr(weather, name, value)
    world.loop.call_in(world.loop.world, fault.lasts, setattr, weather, name, calm)


def _store(name: str) -> Apply:
    return lambda world, fault: _for_a_while(
        world, fault, world.around.bucket.weather, name, fault.rate, 0.0
    )


def _at_put(call: str) -> Apply:
    """Strike a process when its next PUT has succeeded, before it learns of this, or after a second at the latest."""

    def apply(world: World, fault: Fault) -> None:
        waiting = world.around.bucket.when_put
        host = world.host(fault.target)

        def strike() -> None:
            if waiting.pop(host.name, None) is not None:
                getattr(host, call)(fault.lasts)

        waiting[host.name] = strike
        world.loop.call_in(world.loop.world, 1.0, strike)

    return apply


def _damage(world: World, fault: Fault) -> None:
    """Make a fifth of the segments missing or wrong in one byte, until an operator has restored them."""
    bucket = world.around.bucket
    randomness = world.around.randomness(f"damage {fault.number}")
    segments = [info.key for info in bucket.objects.list() if info.key.endswith(".seg")]
    for key in randomness.sample(segments, len(segments) // 5):
        bucket.was_damaged.add(key)
        bucket.damaged[key] = MISSING if randomness.random() < 0.5 else randomness.getrandbits(32)
        world.loop.call_in(world.loop.world, fault.lasts, bucket.damaged.pop, key, None)


def _slow_network(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, world.around.network.weather, "slowness", 1 + 300 * fault.rate, 1.0)


def _resets(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, world.around.network.weather, "reset_rate", fault.rate / 10, 0.0)


def _session_resets(world: World, fault: Fault) -> None:
    """Lose control planes' replies along with their sessions, so that agents resend what clients sent once."""
    weather = world.around.network.weather
    _for_a_while(world, fault, weather, "session_reset_rate", fault.rate / 4, 0.0)


def _slow_disk(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, _disk(world), "slowness", 1 + 2_000 * fault.rate, 1.0)


def _failing_disk(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, _disk(world), "fails", fault.rate, 0.0)


def _disk(world: World) -> DiskWeather:
    assert isinstance(world.planes, LoneControlPlane)
    return world.planes.host.disk.weather


def _slow_database(world: World, fault: Fault) -> None:
    found = _shared(world).database
    assert found is not None
    _for_a_while(world, fault, found, "slowness", 1 + 2_000 * fault.rate, 1.0)


def _cut_standby(world: World, fault: Fault) -> None:
    """Cut off the database's standby. In half of the cases, the standby is then promoted without the missing data."""
    found = _shared(world).database
    assert found is not None
    found.is_standby_cut = True

    def end() -> None:
        if fault.rate < 0.5:
            found.power_off(1.0)
        found.join_standby()

    world.loop.call_in(world.loop.world, fault.lasts, end)


def _shared(world: World) -> SharedPlanes:
    assert isinstance(world.planes, SharedPlanes)
    return world.planes


def _no_store(world: World, fault: Fault) -> None:
    unreachable, name = world.around.bucket.unreachable, world.host(fault.target).name
    unreachable.add(name)
    world.loop.call_in(world.loop.world, fault.lasts, unreachable.discard, name)


def _cut(world: World, fault: Fault) -> None:
    one, other = (world.host(name).name for name in fault.target.split("|"))
    world.around.network.cut(one, other, fault.lasts)


def _cut_from_agents(world: World, fault: Fault) -> None:
    """Cut a control plane off from everything except its journal."""
    for agent in world.agents:
        world.around.network.cut(world.host(fault.target).name, agent.name, fault.lasts)


def _cut_from_journal(world: World, fault: Fault) -> None:
    """Cut a control plane off from its journal, while agents still reach it."""
    if world.planes.journal == BUCKET:
        _no_store(world, fault)
    else:
        world.around.network.cut(world.host(fault.target).name, database.HOST, fault.lasts)


def _kill_all(world: World, fault: Fault) -> None:
    for host in world.planes.hosts:
        host.kill(fault.lasts)


def _force(world: World, fault: Fault) -> None:
    """Make a standby take over although there is a leader, as if an operator had set its lease to zero.

    In half of the cases, the leader also loses the journal, so that it leads for longer. In half, one agent cannot
    reach the standby, and so stays with the leader.
    """
    standbys = _shared(world).standbys()
    if not standbys:
        return
    chosen = standbys[int(fault.rate * len(standbys))]
    _for_a_while(world, fault, chosen, "is_impatient", True, False)
    case = int(fault.rate * 1000)
    if case & 1:
        _cut_from_journal(world, fault)
    if case & 2:
        agent = world.agents[case % len(world.agents)]
        world.around.network.cut(chosen.name, agent.name, fault.lasts)


def _clock(world: World, fault: Fault) -> None:
    """Set a clock forward by up to an hour or, if it is already ahead, back to the true time."""
    host = world.host(fault.target)
    ahead = int(AHEAD_MS * fault.rate) if fault.rate > 0.4 else -5_000
    host.jump_clock(ahead - host.clock_ahead_ms)


def _leap(world: World, fault: Fault) -> None:
    """Set a control plane's clock forward by weeks, and some time later back to the true time."""
    host = world.host(fault.target)
    host.jump_clock(int(LEAP_MS * (0.1 + fault.rate)))
    # Another fault may have set it meanwhile.
    world.loop.call_in(world.loop.world, fault.lasts, lambda: host.jump_clock(-host.clock_ahead_ms))


def _drift(world: World, fault: Fault) -> None:
    """Make a clock gain up to half of the elapsed time, or lose up to a quarter."""
    per_step = int(DRIFT_STEP * 1000 * (0.75 * fault.rate - 0.25))
    host = world.host(fault.target)
    for step in range(int(fault.lasts / DRIFT_STEP)):
        world.loop.call_in(world.loop.world, step * DRIFT_STEP, host.jump_clock, per_step)


# Whom a fault strikes.


def _nobody(_: random.Random, __: Machines) -> str:
    return ""


def _database(_: random.Random, __: Machines) -> str:
    return database.HOST


def _leader(randomness: random.Random, machines: Machines) -> str:
    return randomness.choice([LEADER, LEADER, LEADER, *machines.planes])


def _plane(randomness: random.Random, machines: Machines) -> str:
    return randomness.choice(machines.planes)


def _server(randomness: random.Random, machines: Machines) -> str:
    return randomness.choice(machines.servers)


def _agent(randomness: random.Random, machines: Machines) -> str:
    return randomness.choice(machines.agents)


def _anybody(randomness: random.Random, machines: Machines) -> str:
    return randomness.choice([*machines.servers, *machines.servers, *machines.clients])


def _importer(randomness: random.Random, _: Machines) -> str:
    return randomness.choice(importers.NAMES)


def _two(randomness: random.Random, machines: Machines) -> str:
    one = randomness.choice(machines.servers)
    others = [each for each in [*machines.servers, *machines.clients] if each != one]
    other = randomness.choice(others)
    return f"{one}|{other}"


class Kind(NamedTuple):
    """A kind of fault: its effect, its frequency, and its duration in seconds."""

    apply: Apply
    weight: int
    lasts: tuple[float, float]
    target: Target
    #: The journals with which it can happen.
    journals: Sequence[str] = (DISK, *SHARED)


KINDS: Final[Mapping[str, Kind]] = {
    "kill": Kind(_host("kill"), 6, (0.2, 4.0), _anybody),
    "power off": Kind(_host("power_off"), 3, (0.5, 6.0), _server),
    "stop": Kind(_host("stop"), 2, (0.2, 3.0), _server),
    "pause": Kind(_host("pause"), 5, (0.3, 25.0), _anybody),
    # Past an agent's lease, and perhaps the grace after which what it left is collected.
    "long pause": Kind(_at_put("pause"), 5, (4.0, 28.0), _agent),
    "clock jumps": Kind(_clock, 2, (0.0, 0.0), _server),
    "clock drifts": Kind(_drift, 1, (2.0, 15.0), _server),
    "clock leaps": Kind(_leap, 2, (0.5, 20.0), _plane),
    "cut": Kind(_cut, 5, (0.2, 18.0), _two),
    "slow network": Kind(_slow_network, 2, (0.5, 5.0), _nobody),
    "resets": Kind(_resets, 3, (0.5, 5.0), _nobody),
    "store unreachable": Kind(_no_store, 2, (0.5, 15.0), _agent),
    "store refuses": Kind(_store("refuses"), 2, (0.5, 8.0), _nobody),
    "store loses replies": Kind(_store("loses_replies"), 4, (1.0, 10.0), _nobody),
    "store puts late": Kind(_store("puts_late"), 4, (1.0, 10.0), _nobody),
    "store cuts reads": Kind(_store("cuts"), 2, (0.5, 8.0), _nobody),
    "store flips bits": Kind(_store("flips"), 2, (0.5, 4.0), _nobody),
    "store forbids": Kind(_store("forbids"), 2, (0.3, 6.0), _nobody),
    "store is silent": Kind(_store("silences"), 3, (0.5, 20.0), _nobody),
    "objects damaged": Kind(_damage, 3, (2.0, 15.0), _nobody),
    # One control plane.
    "slow disk": Kind(_slow_disk, 3, (0.3, 5.0), _nobody, [DISK]),
    "disk fails": Kind(_failing_disk, 1, (0.1, 2.0), _nobody, [DISK]),
    # Several of them.
    "kill leader": Kind(_host("kill"), 3, (0.2, 6.0), _leader, SHARED),
    "stop leader": Kind(_host("stop"), 2, (0.2, 3.0), _leader, SHARED),
    "pause leader": Kind(_host("pause"), 4, (0.3, 20.0), _leader, SHARED),
    "cut from agents": Kind(_cut_from_agents, 3, (0.5, 12.0), _leader, SHARED),
    "no control plane": Kind(_kill_all, 1, (0.5, 8.0), _nobody, SHARED),
    "cut from journal": Kind(_cut_from_journal, 4, (0.5, 18.0), _leader, SHARED),
    "two leaders": Kind(_force, 4, (0.5, 4.0), lambda *_: LEADER, SHARED),
    # A journal in PostgreSQL.
    "slow database": Kind(_slow_database, 2, (0.3, 5.0), _nobody, [DATABASE]),
    "database hangs": Kind(_host("pause"), 2, (0.3, 12.0), _database, [DATABASE]),
    "database restarts": Kind(_host("kill"), 2, (0.05, 4.0), _database, [DATABASE]),
    "database fails over": Kind(_host("power_off"), 2, (0.5, 10.0), _database, [DATABASE]),
    "standby cut off": Kind(_cut_standby, 2, (0.3, 6.0), _database, [DATABASE]),
    # A journal in the bucket.
    "pause at PUT": Kind(_at_put("pause"), 4, (0.5, 20.0), _leader, [BUCKET]),
    "store conflicts": Kind(_store("conflicts"), 3, (0.5, 10.0), _nobody, [BUCKET]),
    "journal stalls": Kind(_store("stalls"), 3, (0.5, 10.0), _nobody, [BUCKET]),
}


#: Those of a short history, in which most often a standby takes over beside a leader.
AMONG_LEADERS: Final[Mapping[str, Kind]] = {
    name: KINDS[name]._replace(weight=weight, lasts=lasts)
    for name, weight, lasts in (
        ("two leaders", 16, (0.3, 2.0)),
        ("kill leader", 2, (0.1, 1.0)),
        ("stop leader", 1, (0.1, 1.0)),
        ("pause leader", 3, (0.1, 3.0)),
        ("pause at PUT", 3, (0.1, 3.0)),
        ("cut from journal", 3, (0.3, 3.0)),
        ("cut from agents", 1, (0.3, 3.0)),
        ("resets", 5, (0.3, 2.0)),
        ("slow database", 2, (0.2, 1.0)),
        ("database hangs", 1, (0.1, 1.0)),
        ("standby cut off", 2, (0.3, 2.0)),
        ("store conflicts", 2, (0.3, 2.0)),
        ("store puts late", 2, (0.3, 2.0)),
        ("store loses replies", 2, (0.3, 2.0)),
        ("journal stalls", 2, (0.3, 2.0)),
        ("clock jumps", 2, (0.0, 0.0)),
    )
}


#: Those of a short history of a group: most of them lose answers of control planes.
AMONG_MEMBERS: Final[Mapping[str, Kind]] = {
    "session resets": Kind(_session_resets, 12, (0.5, 3.0), _nobody)
} | {
    name: KINDS[name]._replace(weight=weight, lasts=lasts)
    for name, weight, lasts in (
        ("kill", 4, (0.1, 3.0)),
        ("pause", 3, (0.3, 6.0)),
        ("cut", 3, (0.3, 6.0)),
        ("resets", 2, (0.3, 2.0)),
        ("slow disk", 2, (0.3, 2.0)),
        ("disk fails", 1, (0.1, 1.0)),
        ("two leaders", 4, (0.3, 2.0)),
        ("kill leader", 3, (0.1, 1.0)),
        ("stop leader", 1, (0.1, 1.0)),
        ("pause leader", 3, (0.1, 5.0)),
        ("pause at PUT", 4, (0.5, 5.0)),
        ("cut from journal", 2, (0.3, 6.0)),
        ("cut from agents", 3, (0.3, 6.0)),
        ("store puts late", 1, (0.3, 2.0)),
        ("store loses replies", 1, (0.3, 2.0)),
        ("clock jumps", 1, (0.0, 0.0)),
    )
}


#: Those of a short history of importers: most of them kill one, often between its PUT and its commit.
AMONG_IMPORTERS: Final[Mapping[str, Kind]] = {
    "kill importer": Kind(_host("kill"), 8, (0.1, 2.0), _importer),
    "kill importer at PUT": Kind(_at_put("kill"), 12, (0.1, 2.0), _importer),
    "pause importer at PUT": Kind(_at_put("pause"), 6, (0.3, 20.0), _importer),
} | {
    name: KINDS[name]._replace(weight=weight, lasts=lasts)
    for name, weight, lasts in (
        ("kill", 3, (0.1, 2.0)),
        ("cut", 3, (0.3, 6.0)),
        ("resets", 3, (0.3, 2.0)),
        ("store puts late", 3, (0.3, 4.0)),
        ("store loses replies", 3, (0.3, 4.0)),
        ("slow disk", 2, (0.3, 2.0)),
        ("kill leader", 3, (0.1, 1.0)),
        ("pause leader", 3, (0.1, 5.0)),
        ("two leaders", 3, (0.3, 2.0)),
    )
}


def draw(randomness: random.Random, journal: str, form: Form, machines: Machines) -> list[Fault]:
    """Return the faults for a history of this form, with this kind of journal."""
    possible = {name: kind for name, kind in form.kinds.items() if journal in kind.journals}
    weights = [kind.weight for kind in possible.values()]
    count = randomness.choice(form.fault_counts)
    times = sorted(randomness.uniform(1.0, form.faulty_seconds) for _ in range(count))
    faults = []
    for number, at in enumerate(times, 1):
        name = randomness.choices(list(possible), weights)[0]
        kind = possible[name]
        least, most = kind.lasts
        lasts = least * (most / least) ** randomness.random() if least else 0.0
        target = kind.target(randomness, machines)
        faults.append(Fault(number, at, name, target, lasts, randomness.random()))
    return faults


def shrink(faults: list[Fault], fails: Callable[[set[int]], bool]) -> list[Fault]:
    """Return a minimal list of faults that still fails.

    `fails(without)` replays the seed without the faults with these numbers. Halves are omitted first, then quarters,
    and so on, so that a long list takes few replays.
    """
    kept = list(faults)
    size = max(1, len(kept) // 2)
    while kept:
        removed_any = False
        start = 0
        while start < len(kept):
            part = kept[start : start + size]
            rest = [each for each in kept if each not in part]
            if fails({each.number for each in faults} - {each.number for each in rest}):
                kept = rest
                removed_any = True
            else:
                start += size
        if size == 1 and not removed_any:
            break
        size = max(1, size // 2)
    return kept
