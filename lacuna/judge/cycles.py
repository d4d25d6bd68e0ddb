"""Elle's search for cycles among transactions that append to lists and read them.

Only serial transactions are considered. Each of them fences its predecessor, so Kafka guarantees that they appear to
run one after another. Kafka may interleave other transactions, so cycles among these prove nothing. The versions of a
list are ordered by offset. An edge leads to the transaction that must come later:

    ww  the later one appended after the earlier one's append
    wr  the later one read what the earlier one appended
    rw  the later one appended what the earlier one had not read
    rt  the later one began after the earlier one had ended

The simplest cycle of a component determines the anomaly's name. A G0 cycle has only ww edges, G1c has wr edges as well,
G-single has one rw edge, and G2 has several. If the cycle needs rt edges, -realtime is added to its name.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lacuna.judge.facts import Anomaly, Facts, about
from lacuna.judge.history import SERIAL, Found, Read, Take, Write

WW, WR, RW, RT = "ww", "wr", "rw", "rt"


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency between transactions, and the place or value that shows it."""

    kind: str
    to: int
    focus: str


Graph = dict[int, list[Edge]]


def cycles(facts: Facts) -> Iterator[Anomaly]:
    """Yield G1b anomalies, and the simplest cycle of each strongly connected component."""
    nodes = [
        index
        for index, each in enumerate(facts.history)
        if each.kind == SERIAL and facts.is_visible(index)
    ]
    yield from _intermediate_reads(facts, nodes)
    graph: Graph = {index: [] for index in nodes}
    _list_edges(facts, nodes, graph)
    _register_edges(facts, nodes, graph)
    _time_edges(facts, nodes, graph)
    for component in _components(graph):
        if len(component) > 1:
            yield _named(facts, graph, component)


def _lists(facts: Facts, nodes: Sequence[int]) -> dict[str, list[tuple[int, int, str]]]:
    """Return the appends to each list in offset order, as (offset, transaction, value)."""
    lists: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for index in nodes:
        for write in facts.history[index].of(Write):
            if (offset := facts.offset_of(write)) is not None:
                lists[write.place].append((offset, index, write.value))
    return {place: sorted(rows) for place, rows in lists.items()}


def _list_edges(facts: Facts, nodes: Sequence[int], graph: Graph) -> None:
    lists = _lists(facts, nodes)
    for rows in lists.values():
        for (_, one, _), (_, two, value) in pairwise(rows):
            if one != two:
                graph[one].append(Edge(WW, two, value))
    for index in nodes:
        for read in facts.history[index].of(Read):
            rows = lists.get(read.place, [])
            last = read.records[-1][0] if read.records else -1
            position = bisect_right(rows, last, key=lambda row: row[0])
            if position and (writer := rows[position - 1])[1] != index:
                graph[writer[1]].append(Edge(WR, index, writer[2]))
            after = next((row for row in rows[position:] if row[1] != index), None)
            if after is not None:
                graph[index].append(Edge(RW, after[1], after[2]))


def _register_edges(facts: Facts, nodes: Sequence[int], graph: Graph) -> None:
    """Add the edges that can be derived from group offsets, which serve as registers whose values only grow."""
    takes: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for index in nodes:
        for take in facts.history[index].of(Take):
            takes[take.group, take.place].append((take.offset, index))
    for key, rows in takes.items():
        rows.sort()
        focus = ":".join(key)
        for (low, one), (high, two) in pairwise(rows):
            graph[one].append(Edge(WW, two, focus))
            if low == high:
                graph[two].append(Edge(WW, one, focus))
    for index in nodes:
        for found in facts.history[index].of(Found):
            rows = takes[found.group, found.place]
            focus = f"{found.group}:{found.place}"
            position = bisect_right(rows, found.offset, key=lambda row: row[0])
            if position and rows[position - 1][0] == found.offset:
                graph[rows[position - 1][1]].append(Edge(WR, index, focus))
            if position < len(rows) and rows[position][1] != index:
                graph[index].append(Edge(RW, rows[position][1], focus))


def _time_edges(facts: Facts, nodes: Sequence[int], graph: Graph) -> None:
    """Add an edge from each transaction to every later one, unless another transaction lies between the two."""
    by_identity: defaultdict[str, list[int]] = defaultdict(list)
    for index in nodes:
        by_identity[facts.history[index].identity].append(index)
    for line in by_identity.values():
        line.sort(key=lambda index: facts.history[index].start)
        front: list[int] = []
        for index in line:
            each = facts.history[index]
            before = [other for other in front if facts.history[other].end < each.start]
            for other in before:
                graph[other].append(Edge(RT, index, each.session))
            newest = max((facts.history[other].start for other in before), default=-1.0)
            front = [other for other in front if facts.history[other].end >= newest]
            front.append(index)


def _intermediate_reads(facts: Facts, nodes: Sequence[int]) -> Iterator[Anomaly]:
    """Yield G1b anomalies: reads that end between two appends of one transaction to one list."""
    finals: dict[str, tuple[int, Write]] = {}
    for index in nodes:
        by_place: defaultdict[str, list[Write]] = defaultdict(list)
        for write in facts.history[index].of(Write):
            by_place[write.place].append(write)
        for writes in by_place.values():
            finals.update({write.value: (index, writes[-1]) for write in writes[:-1]})
    for index in nodes:
        for read in facts.history[index].of(Read):
            value = read.records[-1][1] if read.records else ""
            other, final = finals.get(value, (index, None))
            if final is not None and other != index:
                why = f"another transaction read up to it, but its own transaction also wrote {final.value} later"
                yield about("G1b", value, why, [other, index], final.value)


_CLASSES: Final[tuple[tuple[str, frozenset[str], int], ...]] = (
    ("G0", frozenset({WW}), 0),
    ("G1c", frozenset({WW, WR}), 0),
    ("G-single", frozenset({WW, WR}), 1),
    ("G2", frozenset({WW, WR, RW}), 2),
    ("G0-realtime", frozenset({WW, RT}), 0),
    ("G1c-realtime", frozenset({WW, WR, RT}), 0),
    ("G-single-realtime", frozenset({WW, WR, RT}), 1),
    ("G2-realtime", frozenset({WW, WR, RW, RT}), 2),
)


def _named(facts: Facts, graph: Graph, component: frozenset[int]) -> Anomaly:
    for name, kinds, rws in _CLASSES:
        found = _cycle(graph, component, kinds, rws)
        if found:
            nodes = [node for node, _ in found]
            arrows = [f"{_name(facts, node)} -{edge.kind}({edge.focus})->" for node, edge in found]
            why = f"{' '.join(arrows)} {_name(facts, nodes[0])}"
            focus = frozenset(edge.focus for _, edge in found)
            subject = min(_name(facts, node) for node in nodes)
            return Anomaly(name, subject, why, tuple(sorted(nodes)), focus)
    raise AssertionError("a strongly connected component has a cycle")


def _name(facts: Facts, node: int) -> str:
    each = facts.history[node]
    return f"{each.process}@{each.start:.4f}"


def _cycle(
    graph: Graph, component: frozenset[int], kinds: frozenset[str], rws: int
) -> list[tuple[int, Edge]]:
    """Return the shortest cycle of edges of `kinds`, beginning with an rw edge unless `rws` is 0."""
    best: list[tuple[int, Edge]] = []
    for start in component:
        for edge in graph[start]:
            if edge.to not in component or (edge.kind == RW) != bool(rws):
                continue
            if not rws and edge.kind not in kinds:
                continue
            path = _path(
                graph, edge.to, start, lambda each: each.to in component and each.kind in kinds
            )
            if path is not None and (not best or len(path) + 1 < len(best)):
                best = [(start, edge), *path]
    return best


def _path(
    graph: Graph, start: int, goal: int, admits: Callable[[Edge], bool]
) -> list[tuple[int, Edge]] | None:
    before: dict[int, tuple[int, Edge]] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            path = []
            while node != start:
                node, edge = before[node]
                path.append((node, edge))
            return path[::-1]
        for edge in graph[node]:
            if admits(edge) and edge.to not in before and edge.to != start:
                before[edge.to] = (node, edge)
                queue.append(edge.to)
    return None


def _components(graph: Graph) -> Iterator[frozenset[int]]:
    """Yield the strongly connected components, using Tarjan's algorithm without recursion."""
    numbers: dict[int, int] = {}
    lows: dict[int, int] = {}
    stack: list[int] = []
    stacked: set[int] = set()
    for root in graph:
        if root in numbers:
            continue
        work = [(root, iter(graph[root]))]
        numbers[root] = lows[root] = len(numbers)
        stack.append(root)
        stacked.add(root)
        while work:
            node, edges = work[-1]
            for edge in edges:
                if edge.to not in numbers:
                    numbers[edge.to] = lows[edge.to] = len(numbers)
                    stack.append(edge.to)
                    stacked.add(edge.to)
                    work.append((edge.to, iter(graph[edge.to])))
                    break
                if edge.to in stacked:
                    lows[node] = min(lows[node], numbers[edge.to])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lows[parent] = min(lows[parent], lows[node])
                if lows[node] == numbers[node]:
                    yield _pop(stack, stacked, node)


def _pop(stack: list[int], stacked: set[int], node: int) -> frozenset[int]:
    component: list[int] = []
    while not component or component[-1] != node:
        component.append(stack.pop())
        stacked.discard(component[-1])
    return frozenset(component)
