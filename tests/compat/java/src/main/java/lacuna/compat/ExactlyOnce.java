package lacuna.compat;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** Consume, transform, produce: offsets travel in the transaction that writes the results. */
final class ExactlyOnce {
    private static final int RECORDS_PER_TRANSACTION = 10;

    private final Env env;
    private final TopicPartition input;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final Deque<ConsumerRecord<String, String>> waiting = new ArrayDeque<>();

    private ExactlyOnce(Env env, KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
        this.env = env;
        this.input = env.partition("input", 0);
        this.consumer = consumer;
        this.producer = producer;
    }

    static void run(Env env, Result result) throws Exception {
        if (!Features.TRANSACTIONS) {
            result.unsupported("transactions came with kafka-clients 0.11");
            return;
        }
        try (KafkaConsumer<String, String> consumer = env.consumer("eos", RECORDS_PER_TRANSACTION);
                KafkaProducer<String, String> producer = env.producer("none", "eos")) {
            new ExactlyOnce(env, consumer, producer).copy();
        }
        result.fact("committed", Groups.lag(env, "eos", env.partition("input", 0)));
        Reading.readAll(env, result, "output", 0);
    }

    private void copy() throws Exception {
        Features.subscribe(consumer, input.topic(), new Groups.Nothing());
        while (consumer.assignment().isEmpty()) {
            Features.poll(consumer, 100).forEach(waiting::add);
        }
        long end = Features.end(consumer, input);
        long done = -1;
        for (int count = 1; done < end; count++) {
            List<ConsumerRecord<String, String>> batch = take(end);
            long next = waiting.isEmpty() ? consumer.position(input) : waiting.peek().offset();
            write(batch, next);
            if (count == 2) {
                producer.abortTransaction();
                waiting.clear();
                consumer.seek(input, done);
            } else {
                producer.commitTransaction();
                done = next;
            }
        }
    }

    /** The records of one transaction; fewer, or none, when the position is at the end. */
    private List<ConsumerRecord<String, String>> take(long end) {
        while (waiting.size() < RECORDS_PER_TRANSACTION && consumer.position(input) < end) {
            Features.poll(consumer, 100).forEach(waiting::add);
        }
        List<ConsumerRecord<String, String>> batch = new ArrayList<>();
        while (batch.size() < RECORDS_PER_TRANSACTION && !waiting.isEmpty()) {
            batch.add(waiting.poll());
        }
        return batch;
    }

    private void write(List<ConsumerRecord<String, String>> batch, long next) throws Exception {
        producer.beginTransaction();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (ConsumerRecord<String, String> record : batch) {
            String upper = record.value().toUpperCase();
            sent.add(producer.send(new ProducerRecord<>(env.full("output"), 0, record.key(), upper)));
        }
        Env.await(sent);
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(input, new OffsetAndMetadata(next));
        Features.sendOffsets(producer, consumer, env.full("eos"), offsets);
    }
}
