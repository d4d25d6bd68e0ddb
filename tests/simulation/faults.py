"""The faults of one simulation: a list that the seed draws, and which can be replayed with some of them left out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what happens, to whom, when and for how long (simulated seconds), and how much of it."""

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


#: How often a clock that drifts is moved.
DRIFT_STEP: Final = 0.1

Apply = Callable[["World", Fault], None]


def _host(call: str) -> Apply:
    def apply(world: World, fault: Fault) -> None:
        getattr(world.hosts[fault.target], call)(fault.lasts)

    return apply


def _for_a_while(
    world: World, fault: Fault, weather: object, name: str, value: float, calm: float
) -> None:
    setattr(weather, name, value)
    world.loop.call_in(world.loop.world, fault.lasts, setattr, weather, name, calm)


def _store(name: str) -> Apply:
    return lambda world, fault: _for_a_while(
        world, fault, world.around.bucket.weather, name, fault.rate, 0.0
    )


def _pause_at_put(world: World, fault: Fault) -> None:
    """Pauses a process when its next PUT has been done and it does not know yet, or in a second."""
    waiting = world.around.bucket.when_put
    host = world.hosts[fault.target]

    def pause() -> None:
        if waiting.pop(fault.target, None) is not None:
            host.pause(fault.lasts)

    waiting[fault.target] = pause
    world.loop.call_in(world.loop.world, 1.0, pause)


def _slow_network(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, world.around.network.weather, "slowness", 1 + 300 * fault.rate, 1.0)


def _resets(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, world.around.network.weather, "reset_rate", fault.rate / 10, 0.0)


def _slow_disk(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, world.control.disk.weather, "slowness", 1 + 2_000 * fault.rate, 1.0)


def _failing_disk(world: World, fault: Fault) -> None:
    _for_a_while(world, fault, world.control.disk.weather, "fails", fault.rate, 0.0)


def _no_store(world: World, fault: Fault) -> None:
    unreachable = world.around.bucket.unreachable
    unreachable.add(fault.target)
    world.loop.call_in(world.loop.world, fault.lasts, unreachable.discard, fault.target)


def _cut(world: World, fault: Fault) -> None:
    one, other = fault.target.split("|")
    world.around.network.cut(one, other, fault.lasts)


def _clock(world: World, fault: Fault) -> None:
    # Not far back: the control plane's time stands still until its clock has caught up.
    by = 1_800_000 if fault.rate > 0.4 else -5_000
    world.hosts[fault.target].jump_clock(int(by * fault.rate))


def _drift(world: World, fault: Fault) -> None:
    """Has a clock gain up to half of the time that passes, or lose up to a quarter."""
    per_step = int(DRIFT_STEP * 1000 * (0.75 * fault.rate - 0.25))
    for step in range(int(fault.lasts / DRIFT_STEP)):
        world.loop.call_in(
            world.loop.world, step * DRIFT_STEP, world.hosts[fault.target].jump_clock, per_step
        )


#: kind → (how it is applied, how often it is drawn, seconds it lasts or until a host is back)
KINDS: Final[dict[str, tuple[Apply, int, tuple[float, float]]]] = {
    "kill": (_host("kill"), 6, (0.2, 4.0)),
    "power off": (_host("power_off"), 3, (0.5, 6.0)),
    "stop": (_host("stop"), 2, (0.2, 3.0)),
    "pause": (_host("pause"), 5, (0.3, 25.0)),
    # Past an agent's lease, and perhaps the grace after which what it left is collected.
    "long pause": (_pause_at_put, 5, (4.0, 28.0)),
    "clock jumps": (_clock, 2, (0.0, 0.0)),
    "clock drifts": (_drift, 1, (2.0, 15.0)),
    "cut": (_cut, 5, (0.2, 18.0)),
    "slow network": (_slow_network, 2, (0.5, 5.0)),
    "resets": (_resets, 3, (0.5, 5.0)),
    "store unreachable": (_no_store, 2, (0.5, 15.0)),
    "store refuses": (_store("refuses"), 2, (0.5, 8.0)),
    "store loses replies": (_store("loses_replies"), 4, (1.0, 10.0)),
    "store puts late": (_store("puts_late"), 4, (1.0, 10.0)),
    "store cuts reads": (_store("cuts"), 2, (0.5, 8.0)),
    "store flips bits": (_store("flips"), 2, (0.5, 4.0)),
    "slow disk": (_slow_disk, 3, (0.3, 5.0)),
    "disk fails": (_failing_disk, 1, (0.1, 2.0)),
}


def draw(
    randomness: random.Random, seconds: float, servers: Sequence[str], clients: Sequence[str]
) -> list[Fault]:
    """The faults of a run of so many seconds: none to about twenty."""
    names, weights = list(KINDS), [each[1] for each in KINDS.values()]
    count = randomness.choice((0, 2, 4, 8, 12, 20))
    times = sorted(randomness.uniform(1.0, seconds) for _ in range(count))
    faults = []
    for number, at in enumerate(times, 1):
        kind = randomness.choices(names, weights)[0]
        least, most = KINDS[kind][2]
        lasts = least * (most / least) ** randomness.random() if least else 0.0
        target = _target(randomness, kind, servers, clients)
        faults.append(Fault(number, at, kind, target, lasts, randomness.random()))
    return faults


def _target(
    randomness: random.Random, kind: str, servers: Sequence[str], clients: Sequence[str]
) -> str:
    if kind in ("kill", "pause"):
        return randomness.choice([*servers, *servers, *clients])
    if kind in ("power off", "stop", "clock jumps", "clock drifts"):
        return randomness.choice(list(servers))
    if kind in ("store unreachable", "long pause"):
        return randomness.choice([each for each in servers if each != "control"])
    if kind == "cut":
        one = randomness.choice(list(servers))
        other = randomness.choice([each for each in [*servers, *clients] if each != one])
        return f"{one}|{other}"
    return ""
