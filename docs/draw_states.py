"""Draws docs/states.md from the transition tables: `python docs/draw_states.py`. A test holds the page fresh."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from controlplane.groups.states import TRANSITIONS as GROUP_TRANSITIONS
from controlplane.groups.states import GroupState
from controlplane.state.transactional import TRANSITIONS as TRANSACTION_TRANSITIONS
from controlplane.state.transactional import TransactionState

PAGE = Path(__file__).with_name("states.md")


def edges_of_transactions() -> Iterator[tuple[str, str, str]]:
    """(source, target, events) of a transactional id."""
    for source, events in TRANSACTION_TRANSITIONS.items():
        by_target: dict[str, list[str]] = {}
        for event, target in events.items():
            by_target.setdefault(target.value, []).append(event.value)
        for target_name, names in by_target.items():
            yield source.value, target_name, ", ".join(names)


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
    return (
        "# States\n\nDrawn from the tables in the code by `python docs/draw_states.py`.\n\n"
        "## A transactional id\n\nAn outcome is one journal record, so there is nothing to prepare: "
        "an ongoing transaction is complete in one step (S1).\n\n"
        f"{transactions}\n\n## A classic consumer group\n\n{groups}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page())
