import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * The application, a process of its own that can be killed: sums and counts by word, exactly once.
 *
 * <p>From `P-words`, by way of a repartition topic, to a store with a changelog, and to `P-sums`. With -Dapp.more=true,
 * its topology copies these to `P-again`, too. It says RUNNING or ERROR, and ends when its standard input does.
 */
public final class App {
    private App() {}

    /** BOOTSTRAP PREFIX NAME; who starts under the name of another takes its place in the group. */
    public static void main(String[] arguments) throws Exception {
        Path state = Files.createTempDirectory("streams");
        KafkaStreams streams = new KafkaStreams(topology(arguments[1]), settings(arguments, state));
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("RUNNING");
            } else if (now == KafkaStreams.State.ERROR) {
                System.out.println("ERROR");
            }
        });
        streams.start();
        while (System.in.read() >= 0) {
            // nothing is said to it
        }
        streams.close(new KafkaStreams.CloseOptions().timeout(Duration.ofSeconds(20)).leaveGroup(true));
    }

    private static Topology topology(String prefix) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(prefix + "-words", Consumed.with(Serdes.String(), Serdes.String()))
                .map((key, value) -> KeyValue.pair(value.split(" ")[0], value.split(" ")[1]))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()).withName("by-word"))
                .aggregate(() -> "0 0", (word, value, sum) -> add(sum, value),
                        Materialized.<String, String>as(Stores.inMemoryKeyValueStore("sums"))
                                .withKeySerde(Serdes.String())
                                .withValueSerde(Serdes.String())
                                .withCachingDisabled())
                .toStream()
                .to(prefix + "-sums", Produced.with(Serdes.String(), Serdes.String()));
        if (Boolean.getBoolean("app.more")) {
            builder.stream(prefix + "-sums", Consumed.with(Serdes.String(), Serdes.String()))
                    .to(prefix + "-again", Produced.with(Serdes.String(), Serdes.String()));
        }
        return builder.build();
    }

    /** "COUNT SUM" with one value more. */
    static String add(String sum, String value) {
        String[] parts = sum.split(" ");
        return (Long.parseLong(parts[0]) + 1) + " " + (Long.parseLong(parts[1]) + Long.parseLong(value));
    }

    private static Properties settings(String[] arguments, Path state) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
                "application.id", arguments[1] + "-app",
                "client.id", "kafka-streams",
                "bootstrap.servers", arguments[0],
                "processing.guarantee", "exactly_once_v2",
                "commit.interval.ms", "100",
                "state.dir", state.toString(),
                "replication.factor", "1",
                "consumer.auto.offset.reset", "earliest",
                // A killed one is noticed, and what it left open aborted, within the time of the test.
                "consumer.session.timeout.ms", "6000",
                "producer.transaction.timeout.ms", "4000"));
        settings.put("metadata.max.age.ms", "5000");
        if (Instance.PROTOCOL.equals("streams")) {
            // The group decides how long a session is.
            settings.remove("consumer.session.timeout.ms");
            settings.put("group.protocol", "streams");
        } else {
            settings.put("consumer.heartbeat.interval.ms", "500");
            settings.put("group.instance.id", arguments[2]);
        }
        return settings;
    }
}
