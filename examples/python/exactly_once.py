"""Turns orders into invoices exactly once: `python exactly_once.py HOST:PORT`, needs `pip install confluent-kafka`.

It reads `orders`, whose keys are order numbers and whose values are net amounts in cents, and writes the gross amount
of each order to `invoices`. The invoices and the read position are committed in one transaction, so the program may be
killed at any time: its next run continues where the last transaction ended.
"""

import signal
import sys
from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer

SECONDS = 30.0


def gross(net: bytes) -> bytes:
    """Return the amount including 19% tax."""
    return b"%d" % (int(net) * 119 // 100)


def transact(consumer: Consumer, producer: Producer, orders: Sequence[Message]) -> None:
    producer.begin_transaction()
    for order in orders:
        producer.produce("invoices", key=order.key(), value=gross(order.value() or b""))
    # Positions rather than last offsets plus one: positions are also past any aborted records at the end.
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS)
    producer.commit_transaction(SECONDS)


def rewind(consumer: Consumer) -> None:
    """Move the consumer back to where the last committed transaction ended."""
    for partition in consumer.committed(consumer.assignment(), SECONDS):
        if partition.offset < 0:
            partition.offset = OFFSET_BEGINNING
        consumer.seek(partition)


def main(bootstrap: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "invoices",
            "enable.auto.commit": False,  # the transactions commit the offsets
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,  # after a kill, the next run waits this long for the partitions
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "invoices"})
    producer.init_transactions(SECONDS)  # fences any earlier producer with this id
    consumer.subscribe(["orders"])
    is_stopped = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_stopped.append(True))
    while not is_stopped:
        orders = [each for each in consumer.consume(100, 0.5) if not each.error()]
        if not orders:
            continue
        try:
            transact(consumer, producer, orders)
        except KafkaException as failed:
            if not failed.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(SECONDS)
            rewind(consumer)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
