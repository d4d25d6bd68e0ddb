"""The exactly-once loop as a tutorial would write it: with librdkafka's defaults and no time limits on calls.

    python -m tests.faults.plain_eos_worker BOOTSTRAP GROUP SOURCE SINK TRANSACTIONAL_ID

It prints a line `committed COUNT` for every transaction. If librdkafka waits indefinitely, so does this program.
"""

from __future__ import annotations

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from tests.faults.eos_worker import RECORDS_A_TRANSACTION, say
from tests.faults.load import insist


def move(consumer: Consumer, producer: Producer, sink: str) -> None:
    """Run one transaction if there are records to process."""
    rows = [row for row in consumer.consume(RECORDS_A_TRANSACTION, 0.1) if row.error() is None]
    if not rows:
        return
    metadata = consumer.consumer_group_metadata()
    positions = [
        TopicPartition(part.topic, part.partition, part.offset)
        for part in consumer.position(consumer.assignment())
        if part.offset >= 0
    ]
    producer.begin_transaction()
    for row in rows:
        producer.produce(sink, row.value())
    insist(lambda: producer.send_offsets_to_transaction(positions, metadata))
    insist(producer.commit_transaction)
    say(f"committed {len(rows)}")


def rewind(consumer: Consumer) -> None:
    """Seek back to the group's committed offsets."""
    for found in consumer.committed(consumer.assignment()):
        if found.offset < 0:
            found.offset = OFFSET_BEGINNING
        consumer.seek(found)


def main(bootstrap: str, group: str, source: str, sink: str, transactional_id: str) -> None:
    """Run the loop until it is killed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    insist(producer.init_transactions)
    consumer.subscribe([source])

    while True:
        try:
            move(consumer, producer, sink)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            insist(producer.abort_transaction)
            rewind(consumer)


if __name__ == "__main__":
    main(*sys.argv[1:])
