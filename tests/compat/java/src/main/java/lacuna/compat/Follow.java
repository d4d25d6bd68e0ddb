package lacuna.compat;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** {@code BOOTSTRAP TOPIC PARTITIONS GROUP PROTOCOL}: a consumer, as tests/faults/foreign.py describes it. */
public final class Follow {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int FIRST_RECORDS = 10;

    private final Gson gson = new Gson();
    private final String topic;
    private final List<TopicPartition> partitions;
    private final String group;
    private final KafkaConsumer<String, String> consumer;
    private volatile String said = "";
    private final Set<Integer> seen = new HashSet<>();

    private Follow(String[] arguments) {
        topic = arguments[1];
        partitions = IntStream.range(0, Integer.parseInt(arguments[2]))
            .mapToObj(partition -> new TopicPartition(topic, partition)).toList();
        group = arguments[3];
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", false);
        if (group.isEmpty()) {
            settings.put("auto.offset.reset", "none"); // an OFFSET_OUT_OF_RANGE ends it
            settings.put("max.partition.fetch.bytes", 4096);
            settings.put("max.poll.records", FIRST_RECORDS);
        } else {
            settings.put("auto.offset.reset", "earliest");
            settings.put("group.id", group);
            settings.put("group.protocol", arguments[4]);
            if (arguments[4].equals("classic")) {
                settings.put("session.timeout.ms", 20_000);
            }
        }
        consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] arguments) {
        try {
            Follow follow = new Follow(arguments);
            Thread listening = new Thread(follow::listen);
            listening.setDaemon(true);
            listening.start();
            follow.run();
        } catch (Exception failed) {
            failed.printStackTrace();
            System.out.println(new Gson().toJson(Map.of("fatal", failed.toString())));
            System.exit(1);
        }
        System.exit(0);
    }

    private void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                said = line;
            }
        } catch (IOException broken) {
            System.err.println("standard input: " + broken);
        }
        said = "stop";
    }

    private void run() {
        if (group.isEmpty()) {
            consumer.assign(partitions);
            partitions.forEach(partition -> consumer.seek(partition, 0));
        } else {
            consumer.subscribe(List.of(topic), new Told());
        }
        while (!said.equals("stop")) {
            ConsumerRecords<String, String> records = consumer.poll(POLL);
            records.forEach(this::tell);
            if (!group.isEmpty() && !records.isEmpty()) {
                commit();
            }
            pauseOrResume();
        }
        consumer.close();
    }

    /** Reads the beginning of each partition, and no more before it is told to. */
    private void pauseOrResume() {
        if (group.isEmpty() && seen.size() == partitions.size() && said.isEmpty()) {
            consumer.pause(partitions);
        } else if (!consumer.paused().isEmpty()) {
            consumer.resume(partitions);
        }
    }

    private void commit() {
        try {
            consumer.commitSync();
        } catch (RetriableException later) {
            System.err.println("the next commit covers it: " + later);
        }
    }

    private void tell(ConsumerRecord<String, String> record) {
        seen.add(record.partition());
        tell("record", List.of(record.partition(), record.offset(), record.value()));
    }

    private void tell(String what, Object value) {
        System.out.println(gson.toJson(Map.of(what, value)));
    }

    private final class Told implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            tell("assigned", numbers(assigned));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            tell("revoked", numbers(revoked));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            tell("lost", numbers(lost));
        }

        private List<Integer> numbers(Collection<TopicPartition> found) {
            return found.stream().map(TopicPartition::partition).sorted().toList();
        }
    }
}
