import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/** Tools that produce and consume. */
final class ClientTools {
    private static final String CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer";
    private static final String CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer";
    private static final String VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer";
    private static final String VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer";
    private static final String PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance";
    private static final String CONSUMER_PERF = "org.apache.kafka.tools.ConsumerPerformance";
    private static final String LATENCY = "org.apache.kafka.tools.EndToEndLatency";
    private static final String COMPATIBILITY = "org.apache.kafka.tools.ClientCompatibilityTest";

    private ClientTools() {}

    static void add(Map<String, Scenario> scenarios) {
        scenarios.put("kafka-console-producer", ClientTools::consoleProducer);
        scenarios.put("kafka-console-consumer", ClientTools::consoleConsumer);
        scenarios.put("VerifiableProducer", ClientTools::verifiableProducer);
        scenarios.put("VerifiableConsumer", ClientTools::verifiableConsumer);
        scenarios.put("kafka-producer-perf-test", ClientTools::producerPerf);
        scenarios.put("kafka-consumer-perf-test", ClientTools::consumerPerf);
        scenarios.put("kafka-e2e-latency", ClientTools::latency);
        scenarios.put("ClientCompatibilityTest", ClientTools::compatibility);
    }

    /** The first `count` committed records of partition 0, as the console consumer prints them: key=value. */
    static List<String> consumeCommitted(String bootstrap, String topic, int count) throws Exception {
        Tool.Result read = Tool.run(CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic,
                "--partition", "0", "--offset", "earliest", "--isolation-level", "read_committed",
                "--max-messages", String.valueOf(count), "--timeout-ms", "15000",
                "--formatter-property", "print.key=true", "--formatter-property", "key.separator==");
        Steps.check(read.lines().size() == count, "kafka-console-consumer: " + read);
        return read.lines();
    }

    private static void consoleProducer(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "console", 1);
        String input = "k1:v1\nk2:v2\nk3:v3\n";
        String[] arguments = {"--topic", topic, "--sync", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"};
        steps.run("produce", input, line -> line, CONSOLE_PRODUCER, arguments);
        for (String codec : new String[] {"gzip", "snappy", "lz4", "zstd"}) {
            steps.run("produce " + codec, codec + "\n", line -> line, CONSOLE_PRODUCER,
                    "--topic", topic, "--compression-codec", codec);
        }
        steps.records.put("console/0", consumeCommitted(steps.bootstrap, topic, 7));
    }

    private static void consoleConsumer(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "consoled", 1);
        Feed.mixed(steps.bootstrap, topic);
        UnaryOperator<String> mask = line -> line.replaceAll("CreateTime:\\d+", "CreateTime:#");
        for (String level : new String[] {"read_committed", "read_uncommitted"}) {
            String count = level.equals("read_committed") ? "40" : "80";
            steps.run(level, mask, CONSOLE_CONSUMER, "--topic", topic, "--from-beginning", "--isolation-level", level,
                    "--max-messages", count, "--timeout-ms", "15000", "--formatter-property", "print.timestamp=true",
                    "--formatter-property", "print.partition=true", "--formatter-property", "print.key=true");
        }
        // The aborted tail is read past: nothing comes, and the tool ends by its time limit.
        steps.run("nothing behind the tail", CONSOLE_CONSUMER, "--topic", topic, "--partition", "0",
                "--offset", "latest", "--isolation-level", "read_committed", "--timeout-ms", "500");
    }

    private static void verifiableProducer(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "verified", 1);
        Tool.Result result = Tool.run(VERIFIABLE_PRODUCER, "--bootstrap-server", steps.bootstrap, "--topic", topic,
                "--max-messages", "50", "--acks", "-1", "--repeating-keys", "3");
        UnaryOperator<String> mask = line -> line
                .replaceAll("\"timestamp\":\\d+", "\"timestamp\":#")
                .replaceAll("\"avg_throughput\":[\\d.]+", "\"avg_throughput\":#");
        steps.keep("produce", mask, result);
        steps.records.put("verified/0", consumeCommitted(steps.bootstrap, topic, 50));
    }

    private static void verifiableConsumer(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "verifying", 1);
        Feed.mixed(steps.bootstrap, topic);
        Tool.Result result = Tool.run(VERIFIABLE_CONSUMER, "--bootstrap-server", steps.bootstrap, "--topic", topic,
                "--group-id", steps.topic("verifier"), "--max-messages", "80", "--reset-policy", "earliest",
                "--verbose", "--enable-autocommit");
        List<String> names = new ArrayList<>();
        for (String line : result.lines()) {
            if (!line.contains("records_consumed")) {
                names.add(line.replaceAll(".*\"name\":\"(\\w+)\".*", "$1"));
            }
        }
        steps.facts.put("exit", result.exit());
        steps.facts.put("events", names);
    }

    private static void producerPerf(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "perf", 1);
        List<String> common = List.of("--topic", topic, "--num-records", "500", "--record-size", "100",
                "--throughput", "-1", "--producer-props", "bootstrap.servers=" + steps.bootstrap);
        steps.keep("plain", Steps::numbers, Tool.run(PRODUCER_PERF, common.toArray(String[]::new)));
        List<String> transactional = new ArrayList<>(common);
        transactional.addAll(List.of("--transactional-id", steps.topic("perf"), "--transaction-duration-ms", "50"));
        steps.keep("transactions", Steps::numbers, Tool.run(PRODUCER_PERF, transactional.toArray(String[]::new)));
    }

    private static void consumerPerf(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "perf-read", 1);
        Feed.mixed(steps.bootstrap, topic);
        UnaryOperator<String> mask = line -> line.startsWith("start.time")
                ? line
                : line.replaceAll("^[\\d-]+ [\\d:.]+, [\\d-]+ [\\d:.]+, ", "").replaceAll("[\\d.-]+", "#");
        steps.run("consume", mask, CONSUMER_PERF, "--topic", topic, "--messages", "80", "--timeout", "15000");
    }

    private static void latency(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "latency", 1);
        Tool.Result result = Tool.run(LATENCY, steps.bootstrap, topic, "20", "all", "50");
        Steps.check(result.exit() == 0, result.toString());
        steps.keep("run", Steps::numbers, result);
    }

    private static void compatibility(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "compatible", 1);
        String cluster = ClusterTools.clusterId(steps.bootstrap);
        String[] forget = {"--bootstrap-server", steps.bootstrap, "--delete", "--if-exists", "--topic", "newtopic"};
        Tool.run(TopicTools.TOPICS, forget); // of another run
        Tool.Result result = Tool.run(COMPATIBILITY, "--bootstrap-server", steps.bootstrap, "--topic", topic,
                "--offsets-for-times-supported", "true", "--cluster-id-supported", "true",
                "--expect-record-too-large-exception", "false", "--num-cluster-nodes", ClusterTools.nodeCount(steps.bootstrap), "--idempotent-producer-supported", "true",
                "--create-topics-supported", "true", "--describe-acls-supported", "true",
                "--describe-configs-supported", "true");
        Tool.run(TopicTools.TOPICS, forget);
        Steps.check(result.exit() == 0, result.toString());
        steps.keep("run", line -> line.replace(cluster, "CLUSTER").replaceAll("Found .*", "Found"), result);
    }
}
