import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.apache.kafka.common.config.ConfigResource;

/** Tools of share groups. Their groups begin at the start of a topic and read committed records only. */
final class ShareTools {
    private static final String GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand";
    private static final String CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer";
    private static final String VERIFIABLE = "org.apache.kafka.tools.VerifiableShareConsumer";
    private static final String PERF = "org.apache.kafka.tools.ShareConsumerPerformance";
    private static final String CONFIGS = "org.apache.kafka.tools.ConfigCommand";
    private static final String COMMITTED = "40";

    private ShareTools() {}

    static void add(Map<String, Scenario> scenarios) {
        scenarios.put("kafka-share-groups", ShareTools::groups);
        scenarios.put("kafka-console-share-consumer", ShareTools::console);
        scenarios.put("kafka-verifiable-share-consumer", ShareTools::verifiable);
        scenarios.put("kafka-share-consumer-perf-test", ShareTools::perf);
    }

    /** Makes a topic with records of transactions, and lets the group of the same name begin with them. */
    private static String make(Steps steps, String name) throws Exception {
        String topic = TopicTools.make(steps, name, 1);
        Feed.mixed(steps.bootstrap, topic);
        steps.run("config of " + name, CONFIGS, "--alter", "--entity-type", "groups", "--entity-name", topic,
                "--add-config", "share.auto.offset.reset=earliest,share.isolation.level=read_committed");
        Known.configs(steps, ConfigResource.Type.GROUP, topic,
                Map.of("share.auto.offset.reset", "earliest", "share.isolation.level", "read_committed"));
        return topic;
    }

    private static Tool.Result consume(Steps steps, String topic, String count, String... more) {
        List<String> arguments = new ArrayList<>(List.of("--bootstrap-server", steps.bootstrap, "--topic", topic,
                "--group", topic, "--max-messages", count, "--timeout-ms", "15000",
                "--formatter-property", "print.key=true", "--formatter-property", "key.separator=="));
        arguments.addAll(List.of(more));
        return Tool.run(CONSOLE, arguments.toArray(String[]::new));
    }

    private static void groups(Steps steps) throws Exception {
        String topic = make(steps, "shared");
        Steps.check(consume(steps, topic, COMMITTED).lines().size() == 40, "40 records");
        UnaryOperator<String> mine = line -> line.contains("P-tool-shared") || line.startsWith("GROUP") ? line : "";
        UnaryOperator<String> offsets = Steps.columns("GROUP", 3, 4);
        steps.run("list", mine, GROUPS, "--list");
        steps.run("list by state", mine, GROUPS, "--list", "--state", "Empty");
        steps.run("describe", offsets, GROUPS, "--describe", "--group", topic);
        steps.run("members", GROUPS, "--describe", "--group", topic, "--members");
        // Epochs count changes of which each cluster makes its own.
        UnaryOperator<String> state = line -> line.replaceAll("HOST:PORT \\(\\d+\\)", "HOST:PORT (NODE)")
                .replaceAll("Empty \\d+ \\d+", "Empty # #");
        steps.run("state", state, GROUPS, "--describe", "--group", topic, "--state", "--verbose");
        UnaryOperator<String> start = line -> line.replaceAll("(0) [1-9]\\d*$", "$1 #");
        for (String way : new String[] {"--to-earliest", "--to-latest"}) {
            for (String run : new String[] {"--dry-run", "--execute"}) {
                steps.run("reset " + way + run, start, GROUPS, "--reset-offsets", way, run,
                        "--group", topic, "--topic", topic);
            }
        }
        steps.run("reset an unknown topic", GROUPS, "--reset-offsets", "--to-earliest", "--execute",
                "--group", topic, "--topic", topic + "-unknown");
        steps.run("delete offsets", GROUPS, "--delete-offsets", "--group", topic, "--topic", topic);
        steps.run("describe without offsets", GROUPS, "--describe", "--group", topic);
        steps.run("delete", GROUPS, "--delete", "--group", topic);
        steps.run("delete again", Steps::errorTypes, GROUPS, "--delete", "--group", topic);
        steps.run("describe what is gone", Steps::errorTypes, GROUPS, "--describe", "--group", topic);
        steps.run("reset before the first member", GROUPS, "--reset-offsets", "--to-earliest", "--execute",
                "--group", topic + "-new", "--topic", topic);
        steps.run("describe the new group", offsets, GROUPS, "--describe", "--group", topic + "-new");
    }

    private static void console(Steps steps) throws Exception {
        String topic = make(steps, "share-console");
        steps.records.put("rejected/0", consume(steps, topic, "5", "--reject").lines());
        steps.records.put("released/0", consume(steps, topic, "5", "--release").lines());
        steps.records.put("accepted/0", consume(steps, topic, "35").lines());
    }

    private static void verifiable(Steps steps) throws Exception {
        String topic = make(steps, "share-verified");
        Tool.Result result = Tool.run(VERIFIABLE, "--bootstrap-server", steps.bootstrap, "--topic", topic,
                "--group-id", topic, "--max-messages", COMMITTED, "--verbose", "--acknowledgement-mode", "sync");
        List<String> events = new ArrayList<>();
        List<String> values = new ArrayList<>();
        for (String line : result.lines()) {
            String name = line.replaceAll(".*\"name\":\"(\\w+)\".*", "$1");
            if (name.equals("record_data")) {
                values.add(line.replaceAll(".*\"value\":\"([^\"]*)\".*", "$1"));
            } else if (!events.contains(name)) {
                events.add(name);
            }
        }
        steps.facts.put("exit", result.exit());
        steps.facts.put("events", events);
        steps.records.put("verified/0", values);
    }

    private static void perf(Steps steps) throws Exception {
        String topic = make(steps, "share-perf");
        UnaryOperator<String> mask = line -> line.startsWith("start.time")
                ? line
                : line.replaceAll("^[\\d-]+ [\\d:.]+, [\\d-]+ [\\d:.]+, ", "").replaceAll("[\\d.-]+", "#");
        steps.run("consume", mask, PERF, "--topic", topic, "--group", topic, "--num-records", COMMITTED,
                "--timeout", "15000");
    }
}
