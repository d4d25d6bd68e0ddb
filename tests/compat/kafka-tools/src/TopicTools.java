import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.config.ConfigResource;

/** Tools that make, change, measure and empty topics. */
final class TopicTools {
    static final String TOPICS = "org.apache.kafka.tools.TopicCommand";
    private static final String CONFIGS = "org.apache.kafka.tools.ConfigCommand";
    private static final String OFFSETS = "org.apache.kafka.tools.GetOffsetShell";
    private static final String DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand";
    private static final String LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand";
    private static final String ELECTION = "org.apache.kafka.tools.LeaderElectionCommand";
    private static final String REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand";

    private TopicTools() {}

    static void add(Map<String, Scenario> scenarios) {
        scenarios.put("kafka-topics", TopicTools::topics);
        scenarios.put("kafka-configs", TopicTools::configs);
        scenarios.put("kafka-get-offsets", TopicTools::getOffsets);
        scenarios.put("kafka-delete-records", TopicTools::deleteRecords);
        scenarios.put("kafka-log-dirs", TopicTools::logDirs);
        scenarios.put("kafka-leader-election", TopicTools::leaderElection);
        scenarios.put("kafka-reassign-partitions", TopicTools::reassign);
    }

    static String make(Steps steps, String name, int partitions) throws Exception {
        String topic = steps.topic(name);
        Tool.Result made = Tool.run(TOPICS, "--bootstrap-server", steps.bootstrap, "--create", "--topic", topic,
                "--partitions", String.valueOf(partitions));
        Steps.check(made.exit() == 0, "kafka-topics --create: " + made);
        Known.topic(steps, topic, partitions);
        return topic;
    }

    private static void topics(Steps steps) throws Exception {
        String topic = steps.topic("topics");
        // Kafka 4.1 shows a dynamic min.insync.replicas, which it sets for itself.
        UnaryOperator<String> node = line -> line
                .replaceAll("(Leader|Replicas|Isr): \\d+", "$1: NODE")
                .replace("Configs: min.insync.replicas=1,", "Configs: ");
        steps.run("create", TOPICS, "--create", "--topic", topic, "--partitions", "2",
                "--config", "retention.ms=3600000", "--config", "cleanup.policy=compact");
        Known.topic(steps, topic, 2);
        steps.run("create again", TOPICS, "--create", "--topic", topic, "--partitions", "2");
        steps.run("create again, if not exists", TOPICS, "--create", "--if-not-exists", "--topic", topic);
        steps.run("create, bad config", TOPICS, "--create", "--topic", topic + "-bad", "--config", "no.such=1");
        steps.run("create, bad value", TOPICS, "--create", "--topic", topic + "-bad", "--config", "retention.ms=x");
        steps.run("describe", node, TOPICS, "--describe", "--topic", topic);
        steps.run("alter", TOPICS, "--alter", "--topic", topic, "--partitions", "4");
        Known.topic(steps, topic, 4);
        steps.run("alter to fewer", TOPICS, "--alter", "--topic", topic, "--partitions", "3");
        steps.run("describe after", node, TOPICS, "--describe", "--topic", topic);
        steps.run("overrides", node, TOPICS, "--describe", "--topics-with-overrides", "--topic", topic);
        steps.run("unavailable", TOPICS, "--describe", "--unavailable-partitions", "--topic", topic);
        steps.run("under-replicated", TOPICS, "--describe", "--under-replicated-partitions", "--topic", topic);
        steps.run("at-min-isr", node, TOPICS, "--describe", "--under-min-isr-partitions", "--topic", topic);
        steps.run("list", TOPICS, "--list", "--topic", topic + ".*");
        steps.run("delete", TOPICS, "--delete", "--topic", topic);
        Known.noTopic(steps, topic);
        steps.run("delete again", TOPICS, "--delete", "--topic", topic);
        steps.run("list after", TOPICS, "--list", "--topic", topic + ".*");
        steps.run("describe what is gone", TOPICS, "--describe", "--topic", topic);
    }

    private static void configs(Steps steps) throws Exception {
        String topic = make(steps, "configs", 1);
        String[] entity = {"--entity-type", "topics", "--entity-name", topic};
        config(steps, "describe", entity, "--describe");
        config(steps, "alter", entity, "--alter", "--add-config",
                "retention.ms=7200000,max.message.bytes=2000000,message.timestamp.type=LogAppendTime");
        known(steps, topic, "retention.ms", "7200000");
        config(steps, "describe after", entity, "--describe");
        config(steps, "alter a list", entity, "--alter", "--add-config", "cleanup.policy=[compact,delete]");
        config(steps, "delete one", entity, "--alter", "--delete-config", "retention.ms");
        known(steps, topic, "retention.ms", null);
        config(steps, "describe at the end", entity, "--describe");
        config(steps, "unknown", entity, "--alter", "--add-config", "no.such=1");
        config(steps, "bad value", entity, "--alter", "--add-config", "max.message.bytes=-7");
        config(steps, "delete what is not set", entity, "--alter", "--delete-config", "retention.ms");
        String[] missing = {"--entity-type", "topics", "--entity-name", topic + "-missing"};
        config(steps, "missing topic", missing, "--describe");
        String[] brokers = {"--entity-type", "brokers", "--entity-default"};
        config(steps, "brokers by default", brokers, "--describe");
    }

    private static void known(Steps steps, String topic, String name, String value) throws Exception {
        Known.configs(steps, ConfigResource.Type.TOPIC, topic, Collections.singletonMap(name, value));
    }

    private static void config(Steps steps, String step, String[] entity, String... what) throws Exception {
        String[] all = new String[entity.length + what.length];
        System.arraycopy(entity, 0, all, 0, entity.length);
        System.arraycopy(what, 0, all, entity.length, what.length);
        // Kafka 4.1 sets a dynamic min.insync.replicas for itself.
        UnaryOperator<String> mask = line -> line.startsWith("min.insync.replicas=") ? "" : Steps.errorTypes(line);
        steps.run(step, mask, CONFIGS, all);
    }

    private static void getOffsets(Steps steps) throws Exception {
        String topic = make(steps, "offsets", 2);
        Feed.mixed(steps.bootstrap, topic);
        // Offsets after the first record differ: Kafka's control records take some.
        UnaryOperator<String> mask = line -> line.replaceAll("(:0:)[1-9]\\d*$", "$1#");
        steps.run("latest", mask, OFFSETS, "--topic", topic);
        for (String time : new String[] {"earliest", "latest", "max-timestamp", "-1", "-2", "-3", "4102444800000", "0"}) {
            steps.run("time " + time, mask, OFFSETS, "--topic", topic, "--time", time);
        }
        steps.run("one partition", mask, OFFSETS, "--topic-partitions", topic + ":1");
        steps.run("no such topic", mask, OFFSETS, "--topic", topic + "-missing");
    }

    private static void deleteRecords(Steps steps) throws Exception {
        String topic = make(steps, "deletes", 1);
        Feed.mixed(steps.bootstrap, topic);
        Path json = Files.createTempFile("delete-records", ".json");
        try {
            String form = "{\"partitions\":[{\"topic\":\"%s\",\"partition\":%d,\"offset\":%d}],\"version\":1}";
            Files.writeString(json, form.formatted(topic, 0, 10));
            steps.run("ten", DELETE_RECORDS, "--offset-json-file", json.toString());
            steps.run("earliest", OFFSETS, "--topic", topic, "--time", "earliest");
            Files.writeString(json, form.formatted(topic, 0, 1_000_000));
            steps.run("beyond the end", DELETE_RECORDS, "--offset-json-file", json.toString());
            Files.writeString(json, form.formatted(topic, 0, -1));
            UnaryOperator<String> mask = line -> line.replaceAll("low_watermark: \\d+", "low_watermark: #");
            steps.run("all", mask, DELETE_RECORDS, "--offset-json-file", json.toString());
        } finally {
            Files.delete(json);
        }
    }

    private static void logDirs(Steps steps) throws Exception {
        String topic = make(steps, "dirs", 1);
        Feed.mixed(steps.bootstrap, topic);
        UnaryOperator<String> mask = line -> line
                .replaceAll("\"size\":[1-9]\\d*", "\"size\":#")
                .replaceAll("\"broker\":\\d+", "\"broker\":NODE")
                .replaceAll("\"logDir\":\"[^\"]*\"", "\"logDir\":DIR")
                .replaceAll("from brokers [\\d,]+", "from brokers NODES")
                .replaceAll(",?\\{\"broker\":NODE,\"logDirs\":\\[\\{\"partitions\":\\[\\][^]]*\\]\\},?", "");
        steps.run("describe", mask, LOG_DIRS, "--describe", "--topic-list", topic);
    }

    private static void leaderElection(Steps steps) throws Exception {
        String topic = make(steps, "election", 1);
        String[] types = {"preferred", "unclean"};
        for (String type : types) {
            steps.run(type, ELECTION, "--election-type", type, "--topic", topic, "--partition", "0");
        }
        steps.run("no such partition", ELECTION, "--election-type", "preferred", "--topic", topic, "--partition", "9");
    }

    /** The node id that leads partition 0. */
    private static String leader(Steps steps, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", steps.bootstrap))) {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                    .partitions().get(0).leader().idString();
        }
    }

    private static void reassign(Steps steps) throws Exception {
        String topic = make(steps, "reassign", 1);
        Path json = Files.createTempFile("reassign", ".json");
        try {
            UnaryOperator<String> node = line -> line
                    .replaceAll("\"replicas\":\\[\\d+\\]", "\"replicas\":[NODE]")
                    .replaceAll("\"log_dirs\":\\[[^]]*\\]", "\"log_dirs\":[DIR]")
                    .replaceAll("\\bbrokers? [\\d,]+", "broker NODE");
            Files.writeString(json, "{\"topics\":[{\"topic\":\"%s\"}],\"version\":1}".formatted(topic));
            String brokers = leader(steps, topic);
            steps.run("generate", node, REASSIGN, "--generate", "--topics-to-move-json-file", json.toString(),
                    "--broker-list", brokers);
            String same = "{\"partitions\":[{\"topic\":\"%s\",\"partition\":0,\"replicas\":[%s]}],\"version\":1}";
            Files.writeString(json, same.formatted(topic, brokers));
            steps.run("execute", node, REASSIGN, "--execute", "--reassignment-json-file", json.toString());
            steps.run("verify", node, REASSIGN, "--verify", "--reassignment-json-file", json.toString());
            steps.run("list", REASSIGN, "--list");
            Files.writeString(json, same.formatted(topic, "99999"));
            steps.run("to no such broker", REASSIGN, "--execute", "--reassignment-json-file", json.toString());
            Files.writeString(json, same.formatted(topic, brokers));
            steps.run("cancel", node, REASSIGN, "--cancel", "--reassignment-json-file", json.toString());
        } finally {
            Files.delete(json);
        }
    }
}
