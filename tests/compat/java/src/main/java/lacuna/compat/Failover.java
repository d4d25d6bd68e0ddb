package lacuna.compat;

import com.google.gson.Gson;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * {@code BOOTSTRAP PREFIX TRANSACTIONS}: one thread writes transactions, every third aborted, another copies what is
 * committed, exactly once, while somebody kills an agent. Prints {@code at N} as it goes on and, at the end, one line
 * of JSON: what was lost, repeated or out of order, and the longest pause of each.
 */
public final class Failover {
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 8;
    private static final Duration POLL = Duration.ofMillis(50);

    private final Env env;
    private final int transactions;
    private final Map<Integer, List<String>> written = new TreeMap<>();
    private final Map<String, Object> told = new LinkedHashMap<>();
    private volatile boolean isWritten;

    private Failover(Env env, int transactions) {
        this.env = env;
        this.transactions = transactions;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options =
            Map.of("--bootstrap", arguments[0], "--prefix", arguments[1]);
        Failover failover = new Failover(new Env(options, new Workload()), Integer.parseInt(arguments[2]));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            List<NewTopic> topics = new ArrayList<>();
            for (String name : List.of("source", "copy")) {
                topics.add(new NewTopic(failover.env.full(name), PARTITIONS, (short) 1));
            }
            admin.createTopics(topics).all().get();
        }
        failover.run();
        System.out.println(new Gson().toJson(failover.told));
        System.exit(0);
    }

    private void run() throws Exception {
        Thread copier = new Thread(() -> guarded("copy", this::copy), "copy");
        copier.start();
        guarded("write", this::write);
        isWritten = true;
        copier.join();
        for (String name : List.of("source", "copy")) {
            Result read = new Result(name);
            Map<Integer, List<String>> found = new TreeMap<>();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                Reading.readAll(env, read, name, partition);
                found.put(partition, new ArrayList<>(read.of(name, partition)));
            }
            tell(name + "_right", found.equals(written));
            tell(name + "_records", read.count());
        }
        tell("written_records", written.values().stream().mapToInt(List::size).sum());
    }

    private interface Step {
        void run() throws Exception;
    }

    private void guarded(String name, Step step) {
        try {
            step.run();
        } catch (Exception failed) {
            failed.printStackTrace();
            tell(name + "_error", failed.toString());
        }
    }

    private synchronized void tell(String name, Object value) {
        told.put(name, value);
    }

    private void write() throws Exception {
        Pause pause = new Pause();
        try (KafkaProducer<String, String> producer = env.producer("none", "writer")) {
            for (int number = 0; number < transactions; number++) {
                boolean commit = number % 3 != 2;
                List<ProducerRecord<String, String>> records = new ArrayList<>();
                for (int i = 0; i < RECORDS; i++) {
                    String value = number + "." + i;
                    records.add(new ProducerRecord<>(env.full("source"), i % PARTITIONS, null, value));
                }
                while (!once(producer, records, Map.of(), null, commit)) {
                    pause.tries++;
                }
                if (commit) {
                    records.forEach(this::keep);
                }
                pause.done();
                System.out.println("at " + number);
            }
        }
        pause.tell("write");
    }

    private void keep(ProducerRecord<String, String> record) {
        written.computeIfAbsent(record.partition(), none -> new ArrayList<>()).add("~=" + record.value());
    }

    /** One transaction to its end; false if it was aborted against its will, so that it has to be done again. */
    private boolean once(
            KafkaProducer<String, String> producer,
            List<ProducerRecord<String, String>> records,
            Map<TopicPartition, OffsetAndMetadata> offsets,
            KafkaConsumer<String, String> consumer,
            boolean commit) throws Exception {
        try {
            producer.beginTransaction();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<String, String> record : records) {
                sent.add(producer.send(record));
            }
            Env.await(sent);
            if (consumer != null) {
                Features.sendOffsets(producer, consumer, env.full("copier"), offsets);
            }
            patiently(commit ? producer::commitTransaction : producer::abortTransaction);
            return true;
        } catch (ProducerFencedException | OutOfOrderSequenceException fatal) {
            throw fatal;
        } catch (KafkaException broken) {
            System.err.println("aborting: " + broken);
            patiently(producer::abortTransaction);
            return false;
        }
    }

    /** An end that timed out is asked for again: it may have happened. */
    private static void patiently(Runnable end) {
        while (true) {
            try {
                end.run();
                return;
            } catch (TimeoutException again) {
                System.err.println("again: " + again);
            }
        }
    }

    private void copy() throws Exception {
        Pause pause = new Pause();
        try (KafkaConsumer<String, String> consumer = env.consumer("copier", 50);
                KafkaProducer<String, String> producer = env.producer("none", "copier")) {
            Features.subscribe(consumer, env.full("source"), new Groups.Nothing());
            while (!isWritten || !isAtEnd(consumer)) {
                List<ConsumerRecord<String, String>> records = new ArrayList<>();
                consumer.poll(POLL).forEach(records::add);
                if (records.isEmpty()) {
                    continue;
                }
                if (copyOnce(consumer, producer, records)) {
                    pause.done();
                } else {
                    pause.tries++;
                }
            }
        }
        pause.tell("copy");
    }

    private boolean copyOnce(
            KafkaConsumer<String, String> consumer,
            KafkaProducer<String, String> producer,
            List<ConsumerRecord<String, String>> records) throws Exception {
        List<ProducerRecord<String, String>> copies = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        Map<TopicPartition, Long> firsts = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            TopicPartition where = new TopicPartition(record.topic(), record.partition());
            copies.add(new ProducerRecord<>(env.full("copy"), record.partition(), null, record.value()));
            offsets.put(where, new OffsetAndMetadata(record.offset() + 1));
            firsts.putIfAbsent(where, record.offset());
        }
        if (once(producer, copies, offsets, consumer, true)) {
            return true;
        }
        firsts.forEach((where, offset) -> {
            if (consumer.assignment().contains(where)) {
                consumer.seek(where, offset);
            }
        });
        return false;
    }

    private boolean isAtEnd(KafkaConsumer<String, String> consumer) {
        return consumer.assignment().size() == PARTITIONS
            && consumer.assignment().stream()
                .allMatch(where -> consumer.position(where) >= Features.end(consumer, where));
    }

    /** The longest time between two transactions that ended as they should. */
    private final class Pause {
        private long last = System.nanoTime();
        private long longest;
        int tries;

        void done() {
            long now = System.nanoTime();
            longest = Math.max(longest, now - last);
            last = now;
        }

        void tell(String name) {
            Failover.this.tell(name + "_longest_pause_ms", longest / 1_000_000);
            Failover.this.tell(name + "_done_again", tries);
        }
    }
}
