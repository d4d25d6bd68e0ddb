package lacuna.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Reading over holes, from the start and from inside. */
final class Reading {
    private static final long QUIET_MS = 1000;
    private static final long FIRST_MS = 5000;

    private Reading() {}

    static void holes(Env env, Result result) {
        List<String> atEnd = new ArrayList<>();
        for (String name : List.of("all", "end", "middle", "mixed", "start")) {
            if (readAll(env, result, name, 0)) {
                atEnd.add(name);
            }
        }
        result.fact("at_end", atEnd);
    }

    static void holesInside(Env env, Result result) {
        for (String name : List.of("middle", "mixed")) {
            TopicPartition where = env.partition(name, 0);
            List<String> firsts = result.of(name, 0);
            try (KafkaConsumer<String, String> consumer = env.consumer("inside", 500)) {
                Features.assign(consumer, List.of(where));
                long end = Features.end(consumer, where);
                Features.seekToBeginning(consumer, List.of(where));
                long start = consumer.position(where);
                for (int tenth = 0; tenth < 10; tenth++) {
                    consumer.seek(where, start + tenth * (end - start) / 10);
                    String first = first(consumer, where, end);
                    boolean again = !firsts.isEmpty() && firsts.get(firsts.size() - 1).equals(first);
                    if (first != null && !again) {
                        firsts.add(first);
                    }
                }
            }
        }
    }

    static void legacy(Env env, Result result) {
        if (Features.TRANSACTIONS) {
            result.unsupported("kafka-clients from 0.11 on write only record batches (magic 2)");
            return;
        }
        readAll(env, result, "mixed", 0);
        for (int partition = 0; partition < 3; partition++) {
            readAll(env, result, "produce", partition);
        }
    }

    /** Adds all records of a partition to the result; whether the consumer's position reached the end. */
    static boolean readAll(Env env, Result result, String name, int partition) {
        TopicPartition where = env.partition(name, partition);
        result.of(name, partition);
        try (KafkaConsumer<String, String> consumer = env.consumer("read", 500)) {
            Features.assign(consumer, List.of(where));
            long end = Features.end(consumer, where);
            Features.seekToBeginning(consumer, List.of(where));
            return toEnd(consumer, where, end, record -> result.add(name, record));
        }
    }

    /** Polls until the position is at the end, or nothing came for long; whether it is at the end. */
    static boolean toEnd(
            KafkaConsumer<String, String> consumer,
            TopicPartition where,
            long end,
            Consumer<ConsumerRecord<String, String>> taker) {
        Quiet quiet = new Quiet();
        long last = -1;
        while (consumer.position(where) < end && !quiet.isOver()) {
            ConsumerRecords<String, String> records;
            try {
                records = Features.poll(consumer, 100);
            } catch (KafkaException refused) {
                if (Features.TRANSACTIONS || consumer.position(where) < end - 1) {
                    throw refused;
                }
                return false; // Kafka's answer at a control record that is the last one: no old client takes it
            }
            quiet.saw(records);
            for (ConsumerRecord<String, String> record : records) {
                // an old fetch that begins at a control record: Kafka 3.9 answers with the set behind it twice
                if (Features.TRANSACTIONS || record.offset() > last) {
                    taker.accept(record);
                }
                last = Math.max(last, record.offset());
            }
        }
        return consumer.position(where) >= end;
    }

    private static String first(KafkaConsumer<String, String> consumer, TopicPartition where, long end) {
        Quiet quiet = new Quiet();
        while (consumer.position(where) < end && !quiet.isOver()) {
            ConsumerRecords<String, String> records = Features.poll(consumer, 100);
            if (!records.isEmpty()) {
                return Result.text(records.iterator().next());
            }
        }
        return null;
    }

    /** Tells when nothing more is to be expected, for consumers whose position does not reach the end. */
    private static final class Quiet {
        private long deadline = System.nanoTime() + FIRST_MS * 1_000_000;

        void saw(ConsumerRecords<String, String> records) {
            if (!records.isEmpty()) {
                deadline = System.nanoTime() + QUIET_MS * 1_000_000;
            }
        }

        boolean isOver() {
            return System.nanoTime() > deadline;
        }
    }
}
