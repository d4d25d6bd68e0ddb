package lacuna;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;

/** What a producer hears of the single records of a batch that was refused (S11, KIP-467). */
final class Refusals {
    private Refusals() {}

    static void register(Map<String, Main.Scenario> all) {
        all.put("records_without_keys", env -> withoutKeys(env, Set.of(1, 4, 8)));
        all.put("no_record_with_a_key", env -> withoutKeys(env, Set.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)));
    }

    private static void withoutKeys(Env env, Set<Integer> keyless) throws Exception {
        String topic = env.topic(1, Map.of("cleanup.policy", "compact"));
        KafkaProducer<String, String> who = env.producer(null, "linger.ms", 60000);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            sent.add(who.send(new ProducerRecord<>(topic, 0, keyless.contains(i) ? null : "key", "v" + i)));
        }
        who.flush();
        for (int i = 0; i < 10; i++) {
            Throwable error = failure(sent.get(i));
            env.equal("record " + i + " is at fault: " + error, keyless.contains(i),
                error instanceof InvalidRecordException);
            String said = keyless.contains(i) ? "without key|needs a key" : "part of a batch";
            env.that(error.getMessage(), error.getMessage().matches(".*(" + said + ").*"));
        }
    }

    private static Throwable failure(Future<RecordMetadata> sent) throws InterruptedException {
        try {
            sent.get();
        } catch (ExecutionException failed) {
            return failed.getCause();
        }
        throw new AssertionError("it was taken");
    }
}
