"""Draws docs/states.md from the transition tables: `python docs/draw_states.py`. A test holds the page fresh."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

from lacuna.agent.connection_states import LIFE, READING, Reading, State
from lacuna.controlplane.state.groups.states import TRANSITIONS as GROUP_TRANSITIONS
from lacuna.controlplane.state.groups.states import GroupState
from lacuna.controlplane.state.transactional import TRANSITIONS as TRANSACTION_TRANSITIONS
from lacuna.controlplane.state.transactional import TransactionState

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)

PAGE = Path(__file__).with_name("states.md")


def edges_of_transactions() -> Iterator[tuple[str, str, str]]:
    """(source, target, events) of a transactional id."""
    for source, events in TRANSACTION_TRANSITIONS.items():
        yield from edges_from(source, events.items())


def edges_of_actions(
    table: Mapping[S, Mapping[E, tuple[S, tuple[Enum, ...]]]],
) -> Iterator[tuple[str, str, str]]:
    """(source, target, events) of a table that also says what is done."""
    for source, events in table.items():
        yield from edges_from(source, ((event, target) for event, (target, _) in events.items()))


def edges_from(source: Enum, events: Iterable[tuple[Enum, Enum]]) -> Iterator[tuple[str, str, str]]:
    """(source, target, events): one edge for all events that lead to the same target."""
    by_target: dict[str, list[str]] = {}
    for event, target in events:
        by_target.setdefault(target.value, []).append(event.value)
    for target_name, names in by_target.items():
        yield source.value, target_name, ", ".join(names)


def actions(
    table: Mapping[S, Mapping[E, tuple[S, tuple[Enum, ...]]]],
) -> str:
    """A Markdown table of what is done on each event that asks for something."""
    rows = ["| state | event | next | actions |", "|---|---|---|---|"]
    for source, events in table.items():
        for event, (target, done) in events.items():
            if done:
                names = ", ".join(each.value for each in done)
                rows.append(f"| {source.value} | {event.value} | {target.value} | {names} |")
    return "\n".join(rows)


def edges_of_groups() -> Iterator[tuple[str, str, str]]:
    """(source, target, "") of a classic group, in the order of the states."""
    for source, targets in GROUP_TRANSITIONS.items():
        for target in GroupState:
            if target in targets:
                yield source.value, target.value, ""


def diagram(first: str, edges: Iterable[tuple[str, str, str]]) -> str:
    """A Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    for source, target, label in edges:
        lines.append(f"    {source} --> {target}" + (f" : {label}" if label else ""))
    return "\n".join([*lines, "```"])


def page() -> str:
    """The whole page."""
    transactions = diagram(TransactionState.EMPTY.value, edges_of_transactions())
    groups = diagram(GroupState.EMPTY.value, edges_of_groups())
    life = diagram(State.NEW.value, edges_of_actions(LIFE))
    reading = diagram(Reading.ON.value, edges_of_actions(READING))
    return (
        "# States\n\n`python docs/draw_states.py` draws this page from the tables in the code.\n\n"
        "## A transactional id\n\nAn outcome is one journal record, so there is nothing to prepare: "
        "an ongoing transaction completes in one step (S1).\n\n"
        f"{transactions}\n\n## A classic consumer group\n\n{groups}\n\n"
        "## A client's connection\n\nAn event without an arrow cannot happen in that state, and raises an error "
        f"(`agent/connection_states.py`).\n\n{life}\n\n{actions(LIFE)}\n\n"
        f"A second state machine decides when the agent reads from the connection:\n\n{reading}\n\n{actions(READING)}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
