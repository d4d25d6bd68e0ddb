"""Writes the tables of docs/metrics.md from what a cluster shows: `python docs/draw_metrics.py`.

Text between `<!-- generated: NAME -->` and `<!-- end -->` is generated; the rest is written by hand. A test checks that
the page is up to date. A metric with labels appears only once it has a value, so the script runs a cluster in which
every kind of event has happened.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from lacuna.testing import ProcessCluster
from lacuna.testing.ports import lasting_ports

PAGE: Final = Path(__file__).with_name("metrics.md")
_SECTION: Final = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_SECONDS: Final = 60.0


def scraped() -> list[Metric]:
    """The metrics of a cluster that uses a journal shared by several, so that those of its node are there too."""
    (port,) = lasting_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        options = [f"--health=127.0.0.1:{port}", "--zone=a"]
        with ProcessCluster(Path(folder), options) as cluster:
            _use(cluster.bootstrap)
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_SECONDS) as answer:
                return list(text_string_to_metric_families(answer.read().decode()))


def _use(bootstrap: str) -> None:
    config: dict[str, Any] = {"bootstrap.servers": bootstrap}
    producer = Producer({**config, "transactional.id": "open"})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    producer.produce("t", b"x")
    producer.flush(_SECONDS)
    consumer = Consumer({**config, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()


def page(metrics: Iterable[Metric]) -> str:
    """The whole page with its tables made anew."""
    found = sorted(metrics, key=lambda metric: metric.name)
    made = {
        "agent": "\n".join(_table(each for each in found if _place(each) == "agent")),
        "controlplane": "\n".join(_table(each for each in found if _place(each) == "controlplane")),
    }
    return _SECTION.sub(
        lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", PAGE.read_text(encoding="utf-8")
    )


def _place(metric: Metric) -> str:
    return "agent" if metric.name in _names_of_an_agent() else "controlplane"


def _names_of_an_agent() -> frozenset[str]:
    sources = Path(__file__).parents[1] / "lacuna" / "observing" / "agent.py"
    return frozenset(re.findall(r'"(lacuna_\w+)"', sources.read_text(encoding="utf-8")))


def _table(metrics: Iterable[Metric]) -> Iterator[str]:
    yield "| name | type | labels | meaning |"
    yield "|---|---|---|---|"
    for metric in metrics:
        labels = sorted({name for sample in metric.samples for name in sample.labels} - {"le"})
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        cells = f"`{name}`", metric.type, ", ".join(f"`{label}`" for label in labels)
        yield f"| {' | '.join(cells)} | {metric.documentation} |"


if __name__ == "__main__":
    PAGE.write_text(page(scraped()), encoding="utf-8")
