package lacuna;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes the records of a golden file: {@code BOOTSTRAP TOPIC CODEC [TRANSACTIONAL_ID]}.
 *
 * <p>Ten records in one or a few batches; with a transactional id five are committed and five aborted.
 */
public final class Capture {
    private Capture() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0], "compression.type", arguments[2], "linger.ms", 200));
        boolean transactional = arguments.length > 3;
        if (transactional) {
            settings.put("transactional.id", arguments[3]);
        }
        try (var who = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (transactional) {
                who.initTransactions();
            }
            for (int half = 0; half < 2; half++) {
                if (transactional) {
                    who.beginTransaction();
                }
                for (int i = 0; i < 5; i++) {
                    var record = new ProducerRecord<>(arguments[1], 0, 1_760_000_000_000L + i,
                        i == 1 ? null : "key" + i, i == 2 ? null : "value " + half + " ".repeat(50) + i);
                    if (i == 3) {
                        record.headers().add("header", new byte[] {1, 2, 3}).add("null", null);
                    }
                    who.send(record);
                }
                who.flush();
                if (transactional && half == 0) {
                    who.commitTransaction();
                } else if (transactional) {
                    who.abortTransaction();
                }
            }
        }
    }
}
