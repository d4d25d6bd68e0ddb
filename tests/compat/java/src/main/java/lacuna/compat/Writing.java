package lacuna.compat;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Records with every codec, and transactions that commit and abort; what was written is read back. */
final class Writing {
    private static final int PARTITIONS = 3;

    private Writing() {}

    static void produce(Env env, Result result) throws Exception {
        List<String> codecs = new ArrayList<>(List.of("none", "gzip", "snappy", "lz4"));
        if (Features.ZSTD) {
            codecs.add("zstd");
        }
        for (String codec : codecs) {
            try (KafkaProducer<String, String> producer = env.producer(codec, null)) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int i = 0; i < env.workload.produce.size(); i++) {
                    Workload.Entry entry = env.workload.produce.get(i);
                    sent.add(producer.send(env.record("produce", i % PARTITIONS, entry)));
                }
                Env.await(sent);
            }
        }
        result.fact("codecs", codecs);
        for (int partition = 0; partition < PARTITIONS; partition++) {
            Reading.readAll(env, result, "produce", partition);
        }
    }

    static void transactions(Env env, Result result) throws Exception {
        if (!Features.TRANSACTIONS) {
            result.unsupported("transactions came with kafka-clients 0.11");
            return;
        }
        int aborted = 0;
        try (KafkaProducer<String, String> producer = env.producer("none", "transactions")) {
            for (Workload.Transaction transaction : env.workload.transactions) {
                producer.beginTransaction();
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (Workload.Entry entry : transaction.records) {
                    sent.add(producer.send(env.record("transactions", entry.partition, entry)));
                }
                Env.await(sent);
                if (transaction.commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                    aborted++;
                }
            }
        }
        result.fact("aborted", aborted);
        for (int partition = 0; partition < 2; partition++) {
            Reading.readAll(env, result, "transactions", partition);
        }
    }
}
