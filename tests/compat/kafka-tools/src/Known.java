import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Waits until a change is known.
 *
 * <p>Kafka's controller answers a change before the broker that is asked next has applied it.
 */
final class Known {
    private static final long NANOS = Duration.ofSeconds(60).toNanos();

    private interface Look {
        boolean shows(Admin admin) throws Exception;
    }

    private Known() {}

    static void topic(Steps steps, String topic, int partitions) throws Exception {
        await(steps, topic + " has " + partitions + " partitions", admin -> {
            try {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size()
                        == partitions;
            } catch (ExecutionException error) {
                if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                    return false;
                }
                throw error;
            }
        });
    }

    static void noTopic(Steps steps, String topic) throws Exception {
        await(steps, topic + " is gone", admin -> !admin.listTopics().names().get().contains(topic));
    }

    /** Each of `values` is set on the resource itself; a value of null is set no more. */
    static void configs(Steps steps, ConfigResource.Type type, String name, Map<String, String> values)
            throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        await(steps, name + " has " + values, admin -> {
            Map<String, String> set = new HashMap<>();
            for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                if (entry.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG
                        || entry.source() == ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG) {
                    set.put(entry.name(), entry.value());
                }
            }
            return values.entrySet().stream()
                    .allMatch(wanted -> Objects.equals(set.get(wanted.getKey()), wanted.getValue()));
        });
    }

    private static void await(Steps steps, String what, Look look) throws Exception {
        long deadline = System.nanoTime() + NANOS;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", steps.bootstrap))) {
            while (!look.shows(admin)) {
                Steps.check(System.nanoTime() < deadline, "not within 60 s: " + what);
            }
        }
    }
}
