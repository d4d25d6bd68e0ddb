import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Turns orders into invoices exactly once.
 *
 * <p>It reads {@code orders}, whose keys are order numbers and whose values are net amounts in cents, and writes the
 * gross amount of each order to {@code invoices}. The invoices and the read position are committed in one transaction,
 * so the program may be killed at any time: its next run continues where the last transaction ended.
 *
 * <p>{@code mvn -q compile dependency:copy-dependencies && java -cp 'target/classes:target/dependency/*' ExactlyOnce
 * HOST:PORT}
 */
public final class ExactlyOnce {
  private final KafkaConsumer<String, String> consumer;
  private final KafkaProducer<String, String> producer;

  private ExactlyOnce(String bootstrap) {
    Map<String, Object> reading = new HashMap<>();
    reading.put("bootstrap.servers", bootstrap);
    reading.put("group.id", "invoices");
    reading.put("enable.auto.commit", false); // the transactions commit the offsets
    reading.put("isolation.level", "read_committed");
    reading.put("auto.offset.reset", "earliest");
    reading.put("session.timeout.ms", 6000); // after a kill, the next run waits this long for the partitions
    consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
    Map<String, Object> writing = Map.of("bootstrap.servers", bootstrap, "transactional.id", "invoices");
    producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
  }

  /** Returns the amount including 19% tax. */
  private static String gross(String net) {
    return Integer.toString(Integer.parseInt(net) * 119 / 100);
  }

  private void run() {
    producer.initTransactions(); // fences any earlier producer with this id
    consumer.subscribe(List.of("orders"));
    while (true) {
      ConsumerRecords<String, String> orders = consumer.poll(Duration.ofMillis(500));
      if (orders.isEmpty()) {
        continue;
      }
      try {
        transact(orders);
      } catch (ApplicationRecoverableException fenced) {
        throw fenced; // another producer has taken our id, so this process must end
      } catch (KafkaException failed) {
        producer.abortTransaction();
        rewind();
      }
    }
  }

  private void transact(ConsumerRecords<String, String> orders) {
    producer.beginTransaction();
    for (ConsumerRecord<String, String> order : orders) {
      producer.send(new ProducerRecord<>("invoices", order.key(), gross(order.value())));
    }
    // The position is also past any aborted records at the end.
    producer.sendOffsetsToTransaction(orders.nextOffsets(), consumer.groupMetadata());
    producer.commitTransaction();
  }

  /** Moves the consumer back to where the last committed transaction ended. */
  private void rewind() {
    Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
    for (TopicPartition partition : consumer.assignment()) {
      OffsetAndMetadata reached = committed.get(partition);
      if (reached == null) {
        consumer.seekToBeginning(List.of(partition));
      } else {
        consumer.seek(partition, reached);
      }
    }
  }

  public static void main(String[] arguments) throws InterruptedException {
    ExactlyOnce example = new ExactlyOnce(arguments[0]);
    Thread main = Thread.currentThread();
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  example.consumer.wakeup();
                  try {
                    main.join(10_000);
                  } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                  }
                }));
    try {
      example.run();
    } catch (WakeupException stopped) {
      // SIGTERM or Ctrl-C.
    } finally {
      example.consumer.close();
      example.producer.close();
    }
  }
}
