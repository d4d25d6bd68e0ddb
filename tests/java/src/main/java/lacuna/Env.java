package lacuna;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a scenario works with: clients that close themselves, fresh names, and checks. */
final class Env {
    static final Duration PATIENCE = Duration.ofSeconds(60);

    final String bootstrap;
    final boolean kafka;
    private final List<AutoCloseable> open = new ArrayList<>();
    private final Admin admin;
    private int checks;

    Env(String bootstrap, boolean kafka) {
        this.bootstrap = bootstrap;
        this.kafka = kafka;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        open.add(() -> admin.close(Duration.ofSeconds(1)));
    }

    Admin admin() {
        return admin;
    }

    int checks() {
        return checks;
    }

    /** How many offsets the control record of a finished transaction takes. */
    int marker() {
        return kafka ? 1 : 0;
    }

    String name(String stem) {
        return stem + "-" + UUID.randomUUID().toString().substring(0, 8);
    }

    TopicPartition topic() throws Exception {
        return new TopicPartition(topic(1, Map.of()), 0);
    }

    String topic(int partitions, Map<String, String> configs) throws Exception {
        String name = name("j");
        Map<String, String> all = new HashMap<>(configs);
        all.putIfAbsent("retention.ms", "-1"); // some records are of long ago
        NewTopic topic = new NewTopic(name, partitions, (short) 1).configs(all);
        admin.createTopics(List.of(topic)).all().get();
        eventually(() -> admin.describeTopics(List.of(name)).allTopicNames().get().size() == 1);
        return name;
    }

    KafkaProducer<String, String> producer(String transactionalId, Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "linger.ms", 0, "max.block.ms", 60000));
        if (transactionalId != null) {
            all.put("transactional.id", transactionalId);
        }
        for (int i = 0; i < settings.length; i += 2) {
            all.put((String) settings[i], settings[i + 1]);
        }
        KafkaProducer<String, String> made =
            new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
        open.add(() -> made.close(Duration.ofMillis(100)));
        if (transactionalId != null) {
            made.initTransactions();
        }
        return made;
    }

    KafkaConsumer<String, String> consumer(String isolation, Object... settings) {
        Map<String, Object> all = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "isolation.level", isolation,
            "enable.auto.commit", false, "auto.offset.reset", "none", "fetch.max.wait.ms", 100));
        for (int i = 0; i < settings.length; i += 2) {
            all.put((String) settings[i], settings[i + 1]);
        }
        KafkaConsumer<String, String> made =
            new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        open.add(() -> made.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(1))));
        return made;
    }

    long send(KafkaProducer<String, String> who, TopicPartition where, String value) throws Exception {
        return who.send(new ProducerRecord<>(where.topic(), where.partition(), null, value)).get().offset();
    }

    /** A whole transaction with these values; the offset of the last one. */
    long transaction(KafkaProducer<String, String> who, TopicPartition where, boolean commit, String... values)
            throws Exception {
        who.beginTransaction();
        long offset = -1;
        for (String value : values) {
            offset = send(who, where, value);
        }
        if (commit) {
            who.commitTransaction();
        } else {
            who.abortTransaction();
        }
        return offset;
    }

    /** All records from an offset to the end that this isolation level sees, as "offset:value". */
    List<String> read(TopicPartition where, String isolation, long start) {
        try (KafkaConsumer<String, String> who = consumer(isolation)) {
            return readWith(who, where, start);
        }
    }

    List<String> readWith(Consumer<String, String> who, TopicPartition where, long start) {
        who.assign(List.of(where));
        long end = who.endOffsets(List.of(where)).get(where);
        who.seek(where, start);
        List<String> rows = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (who.position(where) < end) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError(
                    "position " + who.position(where) + " does not reach the end " + end + ": " + rows);
            }
            for (ConsumerRecord<String, String> record : who.poll(Duration.ofMillis(200))) {
                rows.add(record.offset() + ":" + record.value());
            }
        }
        return rows;
    }

    List<String> committed(TopicPartition where) {
        return read(where, "read_committed", 0);
    }

    List<String> uncommitted(TopicPartition where) {
        return read(where, "read_uncommitted", 0);
    }

    long latest(TopicPartition where, boolean stable) throws Exception {
        var isolation = stable
            ? org.apache.kafka.common.IsolationLevel.READ_COMMITTED
            : org.apache.kafka.common.IsolationLevel.READ_UNCOMMITTED;
        return admin.listOffsets(Map.of(where, OffsetSpec.latest()),
            new org.apache.kafka.clients.admin.ListOffsetsOptions(isolation)).all().get().get(where).offset();
    }

    /** Until no transaction is open in the partition. */
    void awaitStable(TopicPartition where) throws Exception {
        eventually(() -> latest(where, true) == latest(where, false));
    }

    List<ProducerState> producers(TopicPartition where) throws Exception {
        return admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers();
    }

    TransactionDescription describe(String transactionalId) throws Exception {
        return admin.describeTransactions(List.of(transactionalId)).all().get().get(transactionalId);
    }

    void equal(String what, Object expected, Object got) {
        checks++;
        if (!Objects.equals(expected, got)) {
            throw new AssertionError(what + ": expected " + expected + ", got " + got);
        }
    }

    void that(String what, boolean holds) {
        checks++;
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    /** Runs the action, which must fail with one of these exceptions (or be caused by one). */
    Throwable fails(String what, Callable<?> action, Class<?>... expected) {
        checks++;
        try {
            action.call();
        } catch (Throwable error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                for (Class<?> kind : expected) {
                    if (kind.isInstance(cause)) {
                        return cause;
                    }
                }
            }
            throw new AssertionError(what + ": failed with " + error + " because of " + error.getCause(), error);
        }
        throw new AssertionError(what + ": did not fail; expected "
            + Arrays.stream(expected).map(Class::getSimpleName).collect(Collectors.joining(" or ")));
    }

    void eventually(Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        Exception last = null;
        while (System.nanoTime() < deadline) {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (java.util.concurrent.ExecutionException notYet) {
                last = notYet;
            }
            Thread.sleep(20);
        }
        throw new AssertionError("did not come true in " + PATIENCE, last);
    }

    void close() {
        for (int i = open.size() - 1; i >= 0; i--) {
            try {
                open.get(i).close();
            } catch (Exception alreadyBroken) {
                System.err.println("closing: " + alreadyBroken);
            }
        }
        open.clear();
    }
}
