package lacuna.compat;

import com.google.gson.Gson;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/**
 * {@code BOOTSTRAP PREFIX ABORTED}: a topic that ends with so many aborted records, and the lag that each way of
 * asking tells of a group that has read it; one line of JSON.
 */
public final class Tail {
    private static final int COMMITTED = 10;

    private Tail() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options =
            Map.of("--bootstrap", arguments[0], "--prefix", arguments[1]);
        Env env = new Env(options, new Workload());
        TopicPartition where = env.partition("tail", 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.createTopics(List.of(new NewTopic(where.topic(), 1, (short) 1))).all().get();
            write(env, where, Integer.parseInt(arguments[2]));
            Map<String, Object> told = read(env, where);
            ask(admin, env, where, told);
            System.out.println(new Gson().toJson(told));
        }
        System.exit(0);
    }

    private static void write(Env env, TopicPartition where, int aborted) throws Exception {
        try (KafkaProducer<String, String> producer = env.producer("none", "tail")) {
            producer.beginTransaction();
            send(producer, where, COMMITTED);
            producer.commitTransaction();
            producer.beginTransaction();
            send(producer, where, aborted);
            producer.abortTransaction();
        }
    }

    private static void send(KafkaProducer<String, String> producer, TopicPartition where, int count)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            sent.add(producer.send(new ProducerRecord<>(where.topic(), where.partition(), null, "v" + i)));
        }
        Env.await(sent);
    }

    private static Map<String, Object> read(Env env, TopicPartition where) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = env.consumer("tail", 500)) {
            Features.subscribe(consumer, where.topic(), new Groups.Nothing());
            while (consumer.assignment().isEmpty()) {
                consumer.poll(Duration.ofMillis(50)).forEach(record -> values.add(record.value()));
            }
            long end = Features.end(consumer, where);
            Reading.toEnd(consumer, where, end, record -> values.add(record.value()));
            consumer.commitSync();
            told.put("records", values.size());
            told.put("end", end);
            told.put("lag_of_position", end - consumer.position(where));
            told.put("current_lag", currentLag(consumer, where));
        }
        return told;
    }

    /** KafkaConsumer.currentLag, which came with 3.0; -1 where it is unknown or not there. */
    private static long currentLag(KafkaConsumer<String, String> consumer, TopicPartition where) throws Exception {
        try {
            Object lag = KafkaConsumer.class.getMethod("currentLag", TopicPartition.class).invoke(consumer, where);
            return ((OptionalLong) lag).orElse(-1);
        } catch (NoSuchMethodException old) {
            return -1;
        }
    }

    private static void ask(Admin admin, Env env, TopicPartition where, Map<String, Object> told) throws Exception {
        String group = env.full("tail");
        long committed = admin.listConsumerGroupOffsets(group)
            .partitionsToOffsetAndMetadata().get().get(where).offset();
        for (IsolationLevel isolation : IsolationLevel.values()) {
            long latest = admin.listOffsets(Map.of(where, OffsetSpec.latest()), new ListOffsetsOptions(isolation))
                .all().get().get(where).offset();
            told.put("admin_lag_" + isolation.name().toLowerCase(), latest - committed);
        }
    }
}
