"""The report that an agent sends with its lease, and its bounds (adr/0044)."""

from dataclasses import replace

from lacuna.agent.client import Peer, Software
from lacuna.agent.report import clients_of, report_of
from lacuna.controlplane.state.settings import MAX_REPORT_BYTES
from tests.agent.harness import ScriptedControl, anybody, make_context


def peer(number: int, name: str, version: str = "1") -> Peer:
    host, client_id = f"10.0.0.{number}", f"{number}".rjust(30_000, "x")
    found = replace(anybody(), host=host, port=number, client_id=client_id, software=Software())
    found.software.is_called(name, version)
    return found


def test_clients_are_counted_by_what_they_say() -> None:
    peers = [peer(number, "often" if number % 3 else "rare") for number in range(24)]
    often, rare = clients_of(peers)
    assert (often.name, often.version, often.connections) == ("often", "1", 16)
    assert (len(often.hosts), often.has_more_hosts) == (5, True)
    assert {len(each) for each in often.client_ids} == {100}
    assert rare.connections == 8


def test_a_report_is_bounded_whatever_connects() -> None:
    kinds = [peer(number, "x" * 5000 + str(number), "y" * 5000) for number in range(300)]
    kinds += [peer(number, "many") for number in range(3000)]
    report = report_of(make_context(ScriptedControl()), kinds, None)
    assert report.ByteSize() < MAX_REPORT_BYTES
    assert len(report.clients) <= 20
    assert report.clients[0].connections + report.connections_left_out >= 3000
    told = sum(each.connections for each in report.clients)
    assert told + report.connections_left_out == 3300
