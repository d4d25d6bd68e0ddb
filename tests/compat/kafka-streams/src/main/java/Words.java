import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** What the application is fed with, in transactions of which every third is aborted, and what must come of it. */
final class Words implements AutoCloseable {
    static final int PARTITIONS = 2;
    private static final int WORDS = 3;
    private static final int RECORDS = 6;

    private final KafkaProducer<String, String> producer;
    private final String topic;
    private final Map<String, List<String>> expected = new LinkedHashMap<>();
    private int transactions;

    Words(String bootstrap, String prefix) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "transactional.id", prefix + "-words"));
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        topic = prefix + "-words";
    }

    /** Word to each "COUNT SUM" that is written for it, in order. */
    Map<String, List<String>> expected() {
        return expected;
    }

    /** Some transactions. A word stands in one partition only, so the order of its sums is given. */
    void feed(int count) {
        for (int round = 0; round < count; round++) {
            boolean kept = transactions++ % 3 != 1;
            producer.beginTransaction();
            for (int index = 0; index < RECORDS * PARTITIONS; index++) {
                int partition = index % PARTITIONS;
                String word = "word" + partition + "-" + (index / PARTITIONS) % WORDS;
                String value = String.valueOf(transactions * 100 + index);
                producer.send(new ProducerRecord<>(topic, partition, "ignored", word + " " + value));
                if (kept) {
                    List<String> sums = expected.computeIfAbsent(word, name -> new ArrayList<>());
                    sums.add(App.add(sums.isEmpty() ? "0 0" : sums.get(sums.size() - 1), value));
                }
            }
            producer.flush();
            if (kept) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
    }

    @Override
    public void close() {
        producer.close();
    }
}
