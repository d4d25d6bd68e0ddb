import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Tools that look at consumer groups and change their offsets. */
final class GroupTools {
    private static final String GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
    private static final String ALL_GROUPS = "org.apache.kafka.tools.GroupsCommand";
    private static final int COMMITTED = 40;

    private GroupTools() {}

    static void add(Map<String, Scenario> scenarios) {
        scenarios.put("kafka-consumer-groups", GroupTools::consumerGroups);
        scenarios.put("kafka-groups", GroupTools::groups);
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.putAll(Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", group,
                "client.id", "kafka-tools",
                "isolation.level", "read_committed",
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false"));
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    /** Reads what is committed of the partition, to its end, and commits there. */
    private static void readAll(KafkaConsumer<String, String> consumer, String topic, Steps steps) {
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.subscribe(List.of(topic));
        long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        List<String> read = new java.util.ArrayList<>();
        while (!atEnd(consumer, partition)) {
            Steps.check(System.nanoTime() < deadline, "the end was not reached; records: " + read.size());
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            for (ConsumerRecord<String, String> record : records) {
                read.add(record.key() + "=" + record.value());
            }
        }
        Steps.check(read.size() == COMMITTED, "records read: " + read.size());
        steps.records.put("groups/0", read);
        consumer.commitSync();
    }

    private static boolean atEnd(KafkaConsumer<String, String> consumer, TopicPartition partition) {
        return consumer.assignment().contains(partition)
                && consumer.position(partition) >= consumer.endOffsets(List.of(partition)).get(partition);
    }

    private static void consumerGroups(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "groups", 1);
        String group = steps.topic("group");
        Feed.mixed(steps.bootstrap, topic);
        UnaryOperator<String> offsets = Steps.columns("GROUP", 3, 4);
        try (KafkaConsumer<String, String> consumer = consumer(steps.bootstrap, group)) {
            readAll(consumer, topic, steps);
            steps.run("describe, lag over an aborted tail", offsets, GROUPS, "--describe", "--group", group);
            steps.run("members", GROUPS, "--describe", "--group", group, "--members", "--verbose");
            UnaryOperator<String> state = line -> line.replaceAll("HOST:PORT \\(\\d+\\)", "HOST:PORT (NODE)");
            steps.run("state", state, GROUPS, "--describe", "--group", group, "--state");
            steps.run("reset while it runs", GROUPS, "--reset-offsets", "--to-earliest", "--execute",
                    "--group", group, "--topic", topic);
            steps.run("delete while it runs", GROUPS, "--delete", "--group", group);
        }
        steps.run("describe without members", offsets, GROUPS, "--describe", "--group", group);
        steps.run("list", line -> line.contains("P-tool-group") ? line : "", GROUPS, "--list", "--state");
        steps.run("list by type", line -> line.contains("P-tool-group") ? line : "", GROUPS, "--list", "--type", "classic");
        reset(steps, topic, group);
        steps.run("delete offsets", GROUPS, "--delete-offsets", "--group", group, "--topic", topic);
        steps.run("describe without offsets", GROUPS, "--describe", "--group", group);
        steps.run("delete", GROUPS, "--delete", "--group", group);
        steps.run("delete again", GROUPS, "--delete", "--group", group);
        steps.run("describe what is gone", GROUPS, "--describe", "--group", group);
    }

    private static void reset(Steps steps, String topic, String group) throws Exception {
        UnaryOperator<String> mask = line -> line.replaceAll("(0) [1-9]\\d*$", "$1 #");
        String[] ways = {"--to-earliest", "--to-latest", "--to-offset 7", "--shift-by 3", "--by-duration PT0S",
            "--to-datetime 2000-01-01T00:00:00.000", "--to-current"};
        for (String way : ways) {
            List<String> arguments = new java.util.ArrayList<>(List.of("--reset-offsets", "--execute"));
            arguments.addAll(List.of(way.split(" ")));
            arguments.addAll(List.of("--group", group, "--topic", topic));
            UnaryOperator<String> used = way.contains("latest") || way.contains("PT0S") ? mask : line -> line;
            steps.run("reset " + way, used, GROUPS, arguments.toArray(String[]::new));
        }
        // From the start the committed records alone are 40; the lag counts offsets, which differ.
        steps.run("describe after", Steps.columns("GROUP", 4, 5), GROUPS, "--describe", "--group", group);
    }

    private static void groups(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "all-groups", 1);
        Feed.mixed(steps.bootstrap, topic);
        try (KafkaConsumer<String, String> consumer = consumer(steps.bootstrap, steps.topic("listed"))) {
            readAll(consumer, topic, steps);
        }
        UnaryOperator<String> mine = line -> line.startsWith("GROUP") || line.contains("P-tool-listed") ? line : "";
        steps.run("list", mine, ALL_GROUPS, "--list");
        steps.run("list consumers", mine, ALL_GROUPS, "--list", "--consumer");
        steps.run("list by type", mine, ALL_GROUPS, "--list", "--group-type", "classic");
    }
}
