package lacuna.compat;

import com.google.gson.Gson;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * {@code BOOTSTRAP TOPIC PARTITIONS NAME PAUSE}: a transactional producer that writes until its standard input ends, as
 * tests/faults/foreign.py describes it.
 */
public final class Load {
    private static final int TIMEOUT_MS = 60_000;

    private final Gson gson = new Gson();
    private final String bootstrap;
    private final String topic;
    private final int partitions;
    private final String name;
    private final long pauseMs;
    private final Random random;
    private int number;

    private Load(String[] arguments) {
        bootstrap = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        name = arguments[3];
        pauseMs = Long.parseLong(arguments[4]);
        random = new Random(name.hashCode());
    }

    public static void main(String[] arguments) {
        try {
            new Load(arguments).run(standardInputEnds());
        } catch (Exception failed) {
            failed.printStackTrace();
            System.out.println(new Gson().toJson(Map.of("fatal", failed.toString())));
            System.exit(1);
        }
        System.exit(0);
    }

    private static AtomicBoolean standardInputEnds() {
        AtomicBoolean ended = new AtomicBoolean();
        Thread watching = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (IOException broken) {
                System.err.println("standard input: " + broken);
            }
            ended.set(true);
        });
        watching.setDaemon(true);
        watching.start();
        return ended;
    }

    private void run(AtomicBoolean ended) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            patiently(producer::initTransactions);
            while (!ended.get()) {
                transaction(producer);
                Thread.sleep(pauseMs);
            }
        }
    }

    private KafkaProducer<String, String> producer() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", name);
        settings.put("transactional.id", name);
        settings.put("transaction.timeout.ms", TIMEOUT_MS);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    /** Anything but a KafkaException that lets the transaction be aborted is fatal. */
    private void transaction(KafkaProducer<String, String> producer) throws Exception {
        Map<Integer, List<String>> values = values();
        number++;
        tell("values", values);
        producer.beginTransaction();
        try {
            send(producer, values);
            if (random.nextInt(4) > 0) {
                long asked = System.nanoTime();
                patiently(producer::commitTransaction);
                tell("committed", List.of(asked / 1e9, System.nanoTime() / 1e9));
                return;
            }
        } catch (KafkaException broken) {
            System.err.println("aborting: " + broken);
        }
        patiently(producer::abortTransaction);
        tell("aborted", true);
    }

    private void send(KafkaProducer<String, String> producer, Map<Integer, List<String>> values) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        values.forEach((partition, rows) -> {
            for (String row : rows) {
                sent.add(producer.send(new ProducerRecord<>(topic, partition, null, row)));
            }
        });
        Env.await(sent);
    }

    private Map<Integer, List<String>> values() {
        Map<Integer, List<String>> values = new TreeMap<>();
        int count = 1 + random.nextInt(12);
        for (int at = 0; at < count; at++) {
            values.computeIfAbsent(random.nextInt(partitions), none -> new ArrayList<>())
                .add(name + " " + number + " " + at);
        }
        return values;
    }

    /** A call that took too long for its client goes on where it was when it is called again. */
    private static void patiently(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException late) {
                System.err.println("once more: " + late);
            }
        }
    }

    private void tell(String what, Object value) {
        System.out.println(gson.toJson(Map.of(what, value)));
    }
}
