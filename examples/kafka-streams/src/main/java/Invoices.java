import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;

/**
 * Turns orders into invoices exactly once, as a Kafka Streams application.
 *
 * <p>It reads {@code orders}, whose keys are order numbers and whose values are net amounts in cents, and writes the
 * gross amount of each order to {@code invoices}. It may be killed at any time.
 *
 * <p>{@code mvn -q compile dependency:copy-dependencies && java -cp 'target/classes:target/dependency/*' Invoices
 * HOST:PORT}
 */
public final class Invoices {
  private Invoices() {}

  public static void main(String[] arguments) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "invoices");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1); // the object store keeps the copies
    settings.put("session.timeout.ms", 6000); // after a kill, the next run waits this long for the partitions
    if (arguments.length > 1) {
      settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
    }

    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> orders = builder.stream("orders");
    orders
        .mapValues(net -> Integer.toString(Integer.parseInt(net) * 119 / 100))
        .to("invoices");

    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }
}
