"""Histories as text, and the anomalies that they show. Each smallest history must show its anomaly by itself."""

from __future__ import annotations

import pytest

from lacuna.judge.checker import judge
from lacuna.judge.history import HistoryError, parse, show
from lacuna.judge.report import MOST_SHOWN, explained, page, smallest

#: Nothing is wrong here: faults, lost answers, fences and aborts are a part of a good history.
HONEST = {
    "committed, aborted and unknown": """
        w txn 0-0.2-0.3 ok w#1 t/0+a@0 t/1+b@0
        w txn 0.4-0.6-0.7 fail w#1 t/0+c@2
        w txn 0.8-1-1.1 unknown w#2 t/0+d@? t/1+e@?
        w txn 1.2-1.3-1.4 unknown w#3 t/0+f@5 t/1+g@2
        r read 2-2.1 ok t/0[0,7)0:a,5:f t/1[0,4)0:b,2:g
        r dirty 2-2.1 ok t/0[0,7)0:a,2:c,5:f
        p bounds 3-3.1 ok t/0.lso=7 t/0.hw=7
    """,
    "transactions that interleave": """
        v txn 0-0.5-0.6 ok v#1 t/0+a@0 t/1+b@1
        w txn 0-0.5-0.6 ok w#1 t/0+c@1 t/1+d@0
        r read 1-1.1 ok t/0[0,4)0:a,1:c t/1[0,4)0:d,1:b
    """,
    "a marker that has reached one partition only": """
        w txn 0-0.2-0.3 ok w#1 t/0+a@0 t/1+b@0
        r read 0.21-0.22 ok t/0[0,2)0:a
        r read 0.23-0.24 ok t/1[0,0)
        r read 1-1.1 ok t/1[0,2)0:b
    """,
    "a late request lands after a newer one": """
        w send 0-1 unknown w#1 t/0+a@?
        w send 1.1-1.2 ok w#2 t/0+b@0
        r read 2-2.1 ok t/0[0,2)0:b,1:a
    """,
    "offsets of transactions": """
        l txn 0-0.2-0.3 ok l#1 in/0[0,2)0:a,1:b out/0+x@0 g:in/0:=2
        l txn 0.4-0.6-0.7 fail l#1 in/0[2,4)2:c,3:d out/0+y@2 g:in/0:=4
        l find 0.8-0.9 ok g:in/0==2
        l txn 1-1.2-1.3 unknown l#2 in/0[2,4)2:c,3:d out/0+z@4 g:in/0:=4
        s send 0-0.1 ok s#1 in/0+a@0 in/0+b@1 in/0+c@2 in/0+d@3
        l find 2-2.1 ok g:in/0==4
        r read 2-2.1 ok out/0[0,6)0:x,4:z
    """,
    "a fenced producer is rejected": """
        w init 0-0.1 ok w#1
        w init 0.5-0.6 ok w#2
        w zombie 0.7-0.8 fail w#1 t/0+a@?
        w txn 0.2-0.9-1 fail w#1 t/0+b@0
        r read 2-2.1 ok t/0[0,3)
    """,
    "serial transactions": """
        a serial 0-0.2-0.3 ok s#1 g:l/0==0 l/0[0,0) l/0+a@0 l/1+b@0 g:l/0:=1
        b serial 1-1.2-1.3 ok s#2 g:l/0==1 l/0[0,2)0:a l/1[0,2)0:b l/0+c@2 g:l/0:=2
        a serial 2-2.2-2.3 fail s#3 g:l/0==2 l/0[0,4)0:a,2:c l/1+d@2 g:l/0:=3
        b serial 3-3.2-3.3 ok s#4 g:l/0==2 l/0[0,4)0:a,2:c l/1[0,4)0:b l/1+e@4 g:l/0:=3
        r read 4-4.1 ok l/0[0,4)0:a,2:c l/1[0,6)0:b,4:e
    """,
    "a share group whose broker forgets its locks": """
        w send 0-0.1 ok w#1 s/0+a@0
        a acquire 1-1.1 ok g~s/0? g~s/0@0:a*1/30
        b acquire 1.4-1.5 ok g~s/0? g~s/0@0:a*1/30
        a settle 1.6-1.7 fail g~s/0@0!accept
    """,
    "a share group that delivers again what was released": """
        w send 0-0.1 ok w#1 s/0+a@0
        a acquire 1-1.1 ok g~s/0? g~s/0@0:a*1/30
        a settle 1.2-1.3 ok g~s/0@0!release
        b acquire 1.4-1.5 ok g~s/0? g~s/0@0:a*2/30
        b settle 1.6-1.7 ok g~s/0@0!accept
        r read 2-2.1 ok s/0[0,1)0:a
        b acquire 40-40.1 ok g~s/0?
    """,
}

#: The anomaly, and a history that shows it.
WRONG = {
    "aborted read": """
        w txn 0-0.2-0.3 fail w#1 t/0+a@0
        r read 1-1.1 ok t/0[0,2)0:a
    """,
    "aborted read, in a share group": """
        w txn 0-0.2-0.3 fail w#1 s/0+a@0
        b acquire 1-1.1 ok g~s/0? g~s/0@0:a*1/30
    """,
    "rejected write": """
        w send 0-0.1 fail w#1 t/0+a@?
        r dirty 1-1.1 ok t/0[0,2)0:a
    """,
    "phantom": """
        r read 1-1.1 ok t/0[0,2)0:nobody
    """,
    "misplaced": """
        w send 0-0.1 ok w#1 t/0+a@0
        r read 1-1.1 ok t/0[0,2)1:a
    """,
    "uncommitted read": """
        w txn 0-0.8-0.9 ok w#1 t/0+a@0
        r read 0.2-0.3 ok t/0[0,1)0:a
    """,
    "lost write": """
        w txn 0-0.2-0.3 ok w#1 t/0+a@3
        r read 1-1.1 ok t/0[0,9)
    """,
    "lost write, whose offset nobody told": """
        w send 0-0.2 ok w#1 t/0+a@?
        r read 1-1.1 ok t/0[0,9)
        p bounds 2-2.1 ok t/0.hw=9
    """,
    "torn transaction": """
        w txn 0-0.2-0.3 ok w#1 t/0+a@0 t/1+b@0
        r read 1-1.1 ok t/0[0,2)0:a
        r read 2-2.1 ok t/1[0,2)
    """,
    "torn transaction, of unknown outcome": """
        w txn 0-0.2-0.3 unknown w#1 t/0+a@0 t/1+b@0
        r read 1-1.1 ok t/0[0,2)0:a
        r read 2-2.1 ok t/1[0,2)
    """,
    "torn transaction, its offset": """
        l txn 0-0.2-0.3 unknown l#1 out/0+a@0 g:in/0:=5
        r read 1-1.1 ok out/0[0,2)0:a
        l find 2-2.1 ok g:in/0==0
    """,
    "torn transaction, its records": """
        l txn 0-0.2-0.3 unknown l#1 out/0+a@0 g:in/0:=5
        r read 1-1.1 ok out/0[0,2)
        l find 2-2.1 ok g:in/0==5
    """,
    "missed read": """
        w send 0-0.1 ok w#1 t/0+a@0 t/0+b@1
        r read 1-1.1 ok t/0[0,2)0:a,1:b
        q read 1-1.1 ok t/0[0,2)1:b
    """,
    "doubled write": """
        w send 0-0.1 ok w#1 t/0+a@0
        r read 1-1.1 ok t/0[0,2)0:a,1:a
    """,
    "divergent offset": """
        w send 0-0.1 ok w#1 t/0+a@0
        w send 0.2-0.3 ok w#1 t/0+b@1
        r read 1-1.1 ok t/0[0,2)0:a,1:b
        q read 1-1.1 ok t/0[0,1)0:b
    """,
    "divergent offset, acknowledged": """
        w send 0-0.1 ok w#1 t/0+a@0
        v send 0-0.1 ok v#1 t/0+b@0
    """,
    "disordered read": """
        w send 0-0.1 ok w#1 t/0+a@0 t/0+b@1
        r read 1-1.1 ok t/0[0,2)1:b,0:a
    """,
    "producer order": """
        w txn 0-0.2-0.3 ok w#1 t/0+a@1 t/0+b@0
        r read 1-1.1 ok t/0[0,3)0:b,1:a
    """,
    "real-time order": """
        w send 0-0.1 ok w#1 t/0+a@1
        v send 0.2-0.3 ok v#1 t/0+b@0
    """,
    "lso back": """
        p bounds 0-0.1 ok t/0.lso=5
        p bounds 0.2-0.3 ok t/0.lso=3
    """,
    "hw back": """
        p bounds 0-0.1 ok t/0.hw=5
        p bounds 0.2-0.3 ok t/0.hw=3
    """,
    "read past the lso": """
        w send 0-0.1 ok w#1 t/0+a@7
        r read 0.2-0.3 ok t/0[7,8)7:a
        p bounds 0.4-0.5 ok t/0.lso=7
    """,
    "read past the hw": """
        w txn 0-0.8-0.9 ok w#1 t/0+a@7
        r dirty 0.2-0.3 ok t/0[7,8)7:a
        p bounds 0.4-0.5 ok t/0.hw=7
    """,
    "lso past the hw": """
        p bounds 0-0.1 ok t/0.lso=5
        p bounds 0.2-0.3 ok t/0.hw=4
    """,
    "lso past an open transaction": """
        w txn 0-0.8-0.9 ok w#1 t/0+a@4
        p bounds 0.5-0.6 ok t/0.lso=5
    """,
    "late visibility": """
        w txn 0-0.2-0.3 ok w#1 t/0+a@4
        x fault 1-2 ok
        p bounds 40-40.1 ok t/0.lso=4
    """,
    "not fenced": """
        w init 0-0.1 ok w#1
        w init 0.5-0.6 ok w#2
        w txn 0.2-0.7-0.8 ok w#1 t/0+a@0
    """,
    "not fenced, a write": """
        w init 0-0.1 ok w#1
        w init 0.5-0.6 ok w#2
        w zombie 0.7-0.8 ok w#1 t/0+a@0
    """,
    "stuck reader": """
        p stuck 0-0.1 ok t/0[5,5)
    """,
    "damaged batch": """
        r damaged 0-0.1 ok
    """,
    "lost offset": """
        c commit 0-0.1 ok g:t/0:=5
        c commit 0.2-0.3 ok g:t/0:=7
        c find 0.4-0.5 ok g:t/0==5
    """,
    "offset back": """
        c commit 0-0.1 unknown g:t/0:=5
        c commit 0.2-0.3 unknown g:t/0:=7
        c find 0.4-0.5 ok g:t/0==7
        c find 0.6-0.7 ok g:t/0==5
    """,
    "phantom offset": """
        c commit 0-0.1 ok g:t/0:=5
        c find 0.4-0.5 ok g:t/0==6
    """,
    "aborted offset": """
        l txn 0-0.2-0.3 fail l#1 out/0+x@0 g:in/0:=5
        c find 0.4-0.5 ok g:in/0==5
    """,
    "uncommitted offset": """
        l txn 0-0.8-0.9 ok l#1 out/0+x@0 g:in/0:=5
        c find 0.4-0.5 ok g:in/0==5
    """,
    "processed twice": """
        s send 0-0.1 ok s#1 in/0+a@0 in/0+b@1
        l txn 1-1.2-1.3 ok l#1 in/0[0,2)0:a,1:b out/0+x@0 g:in/0:=2
        m txn 2-2.2-2.3 ok l#2 in/0[0,2)0:a,1:b out/0+y@2 g:in/0:=2
    """,
    "skipped input": """
        s send 0-0.1 ok s#1 in/0+a@0 in/0+b@1
        l txn 1-1.2-1.3 ok l#1 in/0[1,2)1:b out/0+x@0 g:in/0:=2
        r read 2-2.1 ok in/0[0,2)0:a,1:b
    """,
    "G0": """
        a serial 0-0.2-0.3 ok s#1 l/0+a@0 l/1+b@1
        b serial 0-0.2-0.3 ok s#2 l/0+c@1 l/1+d@0
    """,
    "G0, of offsets": """
        a serial 0-0.2-0.3 ok s#1 l/0+a@0 g:l/0:=1
        b serial 1-1.2-1.3 ok s#2 l/0+b@2 g:l/0:=1
    """,
    "G1b": """
        a serial 0-0.2-0.3 ok s#1 l/0+a@0 l/0+b@1
        b serial 1-1.2-1.3 ok s#2 l/0[0,1)0:a l/1+c@0
        r read 2-2.1 ok l/0[0,3)0:a,1:b
    """,
    "G1c": """
        a serial 0-0.2-0.3 ok s#1 l/1[0,2)0:b l/0+a@0
        b serial 0-0.2-0.3 ok s#2 l/0[0,2)0:a l/1+b@0
    """,
    "G-single": """
        a serial 0-0.2-0.3 ok s#1 l/0+a@0 l/1+b@0
        b serial 0-0.2-0.3 ok s#2 l/0[0,2)0:a l/1[0,0) l/2+c@0
        r read 2-2.1 ok l/1[0,2)0:b
    """,
    "G-single, of offsets": """
        a serial 0-0.2-0.3 ok s#1 l/0+a@0 g:l/0:=1
        b serial 0-0.2-0.3 ok s#2 g:l/0==0 l/0[0,2)0:a l/2+c@0
    """,
    "G2": """
        a serial 0-0.2-0.3 ok s#1 l/0[0,0) l/1+a@0
        b serial 0-0.2-0.3 ok s#2 l/1[0,0) l/0+b@0
    """,
    "G-single-realtime": """
        a serial 0-0.2-0.3 ok s#1 l/0+a@0
        b serial 1-1.2-1.3 ok s#2 l/0[0,0) l/1+b@0
        r read 2-2.1 ok l/0[0,2)0:a
    """,
    "delivered again": """
        w send 0-0.1 ok w#1 s/0+a@0
        a acquire 1-1.1 ok g~s/0? g~s/0@0:a*1/30
        a settle 1.2-1.3 ok g~s/0@0!accept
        b acquire 1.4-1.5 ok g~s/0? g~s/0@0:a*2/30
    """,
    "delivered twice": """
        w send 0-0.1 ok w#1 s/0+a@0
        a acquire 1-1.1 ok g~s/0? g~s/0@0:a*1/30
        b acquire 1.4-1.5 ok g~s/0? g~s/0@0:a*1/30
        a settle 1.6-1.7 ok g~s/0@0!accept
    """,
    "undelivered": """
        w send 0-0.1 ok w#1 s/0+a@0 s/0+b@1
        a acquire 1-1.1 ok g~s/0? g~s/0@1:b*1/30
        a settle 1.2-1.3 ok g~s/0@1!accept
        r read 2-2.1 ok s/0[0,2)0:a,1:b
        a acquire 40-40.1 ok g~s/0?
    """,
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_history_has_no_anomaly(name: str) -> None:
    assert judge(parse(HONEST[name])) == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_history_is_caught_by_the_smallest_part_of_it(name: str) -> None:
    kind = name.partition(",")[0]
    honest = parse("z txn 0-0.2-0.3 ok z#1 z/0+z1@0\nz read 1-1.1 ok z/0[0,2)0:z1")
    history = [*honest[:1], *parse(WRONG[name]), *honest[1:]]
    anomaly = next(each for each in judge(history) if each.kind == kind)
    small = smallest(history, anomaly)
    assert anomaly.key in {each.key for each in judge(small)}
    assert not {"z"} & {each.process for each in small}
    for each in small:
        rest = [other for other in small if other is not each]
        assert anomaly.key not in {other.key for other in judge(rest)}


@pytest.mark.parametrize("name", [*HONEST, *WRONG])
def test_a_history_is_its_text(name: str) -> None:
    history = parse({**HONEST, **WRONG}[name])
    assert parse(show(history)) == history


@pytest.mark.parametrize("line", ["w", "w txn then ok", "w txn 0-1 ok t/0=a"])
def test_text_that_is_no_operation_is_an_error(line: str) -> None:
    with pytest.raises(HistoryError, match="not a"):
        parse(line)


def test_the_cycle_of_a_component_is_its_shortest() -> None:
    ring = "".join(
        f"p{number} serial 0-0.2-0.3 ok s#{number} l/{number}+a{number}@0 l/{(number + 1) % 5}+b{number}@1\n"
        for number in range(5)
    )
    pair = WRONG["G0"].replace("l/", "m/")
    anomalies = [each for each in judge(parse(ring + pair)) if each.kind == "G0"]
    assert sorted(len(each.operations) for each in anomalies) == [2, 5]


def test_a_page_shows_each_kind_and_a_timeline_for_each_place() -> None:
    text = WRONG["aborted read"] + "x fault 0.1-0.4 ok\nr read 1-1.1 ok t/1[0,2)0:&lt;"
    history = parse(text)
    anomalies = judge(history)
    shown = explained(history, anomalies)
    html = page(history, anomalies, shown, "Verdict on <b>")
    assert html.count("<details>") == 2
    assert "Verdict on &lt;b&gt;" in html
    assert 'class="fail bad"' in html
    assert 'class="fault"' in html
    assert "<script" not in html


def test_a_page_explains_a_few_anomalies_of_a_kind_and_counts_all() -> None:
    values = range(MOST_SHOWN + 2)
    lines = [f"w txn 0-0.2-0.3 fail w#1 t/0+a{each}@{each}" for each in values]
    records = ",".join(f"{each}:a{each}" for each in values)
    history = parse("\n".join([*lines, f"r read 1-1.1 ok t/0[0,9){records}"]))
    anomalies = judge(history)
    assert len(explained(history, anomalies)) == MOST_SHOWN
    assert len(anomalies) == MOST_SHOWN + 2
