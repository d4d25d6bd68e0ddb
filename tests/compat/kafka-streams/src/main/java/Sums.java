import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The committed output of the application, read as it comes. */
final class Sums implements AutoCloseable {
    private final KafkaConsumer<String, String> consumer;
    private final List<TopicPartition> partitions;
    private final Map<String, List<String>> read = new TreeMap<>();

    Sums(String bootstrap, String prefix) {
        Properties settings = new Properties();
        settings.putAll(Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed",
                "metadata.max.age.ms", "5000"));
        consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        partitions = IntStream.range(0, Words.PARTITIONS)
                .mapToObj(number -> new TopicPartition(prefix + "-sums", number)).toList();
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
    }

    /** Reads until there is one more than `seen`. */
    void awaitMoreThan(int seen) {
        await(() -> total(read) > seen, "there is no sum more than " + seen);
    }

    int seen() {
        return total(read);
    }

    /** Reads until the words have their sums and the end is reached: neither less, nor more, nor another order. */
    Map<String, List<String>> awaitExactly(Map<String, List<String>> expected) {
        int wanted = total(expected);
        await(() -> total(read) >= wanted && atEnd(), "expected " + wanted + " sums");
        if (!read.equals(expected)) {
            throw new IllegalStateException("not exactly once: " + read + " instead of " + expected);
        }
        return new TreeMap<>(read);
    }

    private void await(java.util.function.BooleanSupplier done, String what) {
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (!done.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(what + ", but after 60 s there are " + total(read));
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                read.computeIfAbsent(record.key(), word -> new ArrayList<>()).add(record.value());
            }
        }
    }

    private boolean atEnd() {
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        return partitions.stream().allMatch(partition -> consumer.position(partition) >= ends.get(partition));
    }

    private static int total(Map<String, List<String>> sums) {
        return sums.values().stream().mapToInt(List::size).sum();
    }

    @Override
    public void close() {
        consumer.close();
    }
}
