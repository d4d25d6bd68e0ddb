package lacuna.compat;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a scenario works with: clients, which it closes, and the names of its topics and groups. */
final class Env {
    final Workload workload;
    final boolean consumerProtocol;
    private final String bootstrap;
    private final String prefix;
    private final Map<String, Object> security;

    Env(Map<String, String> options, Workload workload) {
        this(
            workload,
            "consumer".equals(options.get("--group-protocol")),
            options.get("--bootstrap"),
            options.get("--prefix"),
            Map.of());
    }

    private Env(
            Workload workload,
            boolean consumerProtocol,
            String bootstrap,
            String prefix,
            Map<String, Object> security) {
        this.workload = workload;
        this.consumerProtocol = consumerProtocol;
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.security = security;
    }

    /** The same over SASL_SSL, with topics and groups of its own. */
    Env secured(String name, Map<String, Object> security) {
        return new Env(workload, consumerProtocol, System.getenv("COMPAT_SECURED"), full(name), security);
    }

    /** The name of a topic, group or transactional id on the cluster. */
    String full(String name) {
        return prefix + "-" + name;
    }

    TopicPartition partition(String name, int partition) {
        return new TopicPartition(full(name), partition);
    }

    /** A producer with acks=all; idempotent where the version can be, transactional if an id is given. */
    KafkaProducer<String, String> producer(String codec, String transactionalId) {
        Map<String, Object> settings = common();
        settings.put("acks", "all");
        settings.put("linger.ms", 5);
        settings.put("compression.type", codec);
        if (Features.TRANSACTIONS) {
            settings.put("enable.idempotence", true);
        }
        if (transactionalId != null) {
            settings.put("transactional.id", full(transactionalId));
            settings.put("transaction.timeout.ms", 20_000);
        }
        KafkaProducer<String, String> made =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        if (transactionalId != null) {
            made.initTransactions();
        }
        return made;
    }

    /** A consumer of a group (used or not), read_committed where the version knows it, committing nothing itself. */
    KafkaConsumer<String, String> consumer(String group, int recordsPerPoll) {
        Map<String, Object> settings = common();
        settings.put("group.id", full(group));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("fetch.max.wait.ms", 50); // a seek waits for what is in flight
        settings.put("max.poll.records", recordsPerPoll);
        if (Features.TRANSACTIONS) {
            settings.put("isolation.level", "read_committed");
        }
        if (consumerProtocol) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("session.timeout.ms", 6000);
            settings.put("heartbeat.interval.ms", 300);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private Map<String, Object> common() {
        Map<String, Object> settings = new HashMap<>(security);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "java");
        return settings;
    }

    ProducerRecord<String, String> record(String name, int partition, Workload.Entry entry) {
        ProducerRecord<String, String> record =
            new ProducerRecord<>(full(name), partition, entry.key, entry.value);
        if (Features.HEADERS && entry.headers != null) {
            for (List<String> header : entry.headers) {
                String value = header.get(1);
                byte[] bytes = value == null ? null : value.getBytes(StandardCharsets.UTF_8);
                record.headers().add(header.get(0), bytes);
            }
        }
        return record;
    }

    /** Waits for all; the first failure is thrown as it is. */
    static void await(List<Future<RecordMetadata>> sent) throws Exception {
        for (Future<RecordMetadata> one : sent) {
            try {
                one.get();
            } catch (ExecutionException failed) {
                throw (Exception) failed.getCause();
            }
        }
    }
}
