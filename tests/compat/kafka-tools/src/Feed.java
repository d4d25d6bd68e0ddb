import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Records that the tools find: in transactions, committed and aborted. */
final class Feed {
    private Feed() {}

    static KafkaProducer<String, String> transactional(String bootstrap, String transactionalId) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
                "bootstrap.servers", bootstrap,
                "transactional.id", transactionalId,
                "transaction.timeout.ms", "60000",
                "linger.ms", "0"));
        KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    /** `count` records "NAME-0", ... to partition 0 in the producer's open transaction, acknowledged. */
    static void send(KafkaProducer<String, String> producer, String topic, String name, int count) {
        for (int index = 0; index < count; index++) {
            producer.send(new ProducerRecord<>(topic, 0, name, name + "-" + index));
        }
        producer.flush();
    }

    /** 20 committed, 20 aborted, 20 committed, 20 aborted: the partition ends with an aborted tail. */
    static void mixed(String bootstrap, String topic) {
        try (KafkaProducer<String, String> producer = transactional(bootstrap, topic + "-feed")) {
            for (int round = 0; round < 2; round++) {
                producer.beginTransaction();
                send(producer, topic, "kept" + round, 20);
                producer.commitTransaction();
                producer.beginTransaction();
                send(producer, topic, "gone" + round, 20);
                producer.abortTransaction();
            }
        }
    }

    static void closeNow(KafkaProducer<String, String> producer) {
        producer.close(Duration.ZERO);
    }
}
