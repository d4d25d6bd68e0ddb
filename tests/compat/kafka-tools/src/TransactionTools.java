import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.KafkaProducer;

/** kafka-transactions and the transactional message copier of Kafka's system tests. */
final class TransactionTools {
    private static final String TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand";
    private static final String COPIER = "org.apache.kafka.tools.TransactionalMessageCopier";
    private static final Pattern ONGOING = Pattern.compile("^\\d+\\s+\\d+\\s+-?\\d+\\s+-?\\d+\\s+\\d+\\s+(\\d+)\\s*$");

    private TransactionTools() {}

    static void add(Map<String, Scenario> scenarios) {
        scenarios.put("kafka-transactions", TransactionTools::transactions);
        scenarios.put("TransactionalMessageCopier", TransactionTools::copier);
    }

    private static void transactions(Steps steps) throws Exception {
        String topic = TopicTools.make(steps, "transactions", 1);
        String id = steps.topic("ongoing");
        Feed.mixed(steps.bootstrap, topic);
        try (KafkaProducer<String, String> producer = Feed.transactional(steps.bootstrap, id)) {
            producer.beginTransaction();
            Feed.send(producer, topic, "ongoing", 5);
            UnaryOperator<String> mine = line -> line.contains(id.replace(steps.prefix, "P"))
                    ? Steps.columns("TransactionalId", 1, 2).apply(line)
                    : line.startsWith("TransactionalId") ? line : "";
            steps.run("list", mine, TRANSACTIONS, "list");
            steps.run("list by pattern", mine, TRANSACTIONS, "list", "--transactional-id-pattern", ".*-ongoing");
            steps.run("list, long ones", mine, TRANSACTIONS, "list", "--duration-filter", "3600000");
            UnaryOperator<String> described = Steps.columns("CoordinatorId", 0, 2, 3, 6, 7);
            steps.run("describe", described, TRANSACTIONS, "describe", "--transactional-id", id);
            UnaryOperator<String> row = TransactionTools::producers;
            Tool.Result found = steps.run("describe-producers", row, TRANSACTIONS, "describe-producers",
                    "--topic", topic, "--partition", "0");
            steps.run("find-hanging", TRANSACTIONS, "find-hanging", "--topic", topic, "--partition", "0");
            // It ends with an error if another program's topic is deleted between two of its requests.
            Tool.Result all;
            int attempts = 0;
            do {
                all = steps.run("find-hanging of a broker", line -> line.replaceAll("id=\\d+", "id=NODE"),
                        TRANSACTIONS, "find-hanging", "--broker-id", ClusterTools.nodeId(steps.bootstrap));
            } while (all.exit() != 0 && ++attempts < 50);
            steps.run("abort", TRANSACTIONS, "abort", "--topic", topic, "--partition", "0",
                    "--start-offset", startOffset(found));
            steps.run("describe-producers after", row, TRANSACTIONS, "describe-producers",
                    "--topic", topic, "--partition", "0");
            steps.run("describe what is not there", TRANSACTIONS, "describe", "--transactional-id", id + "-missing");
            Feed.closeNow(producer);
        }
    }

    private static String producers(String line) {
        if (line.startsWith("ProducerId")) {
            return line;
        }
        // Of the rows what counts is whether a transaction is ongoing; Kafka keeps a row for a marker's producer.
        return line.endsWith(" None") ? "# ended" : line.matches("\\d+ .* \\d+") ? "# ongoing" : line;
    }

    private static String startOffset(Tool.Result found) {
        for (String line : found.lines()) {
            Matcher row = ONGOING.matcher(line);
            if (row.matches()) {
                return row.group(1);
            }
        }
        throw new IllegalStateException("describe-producers shows no ongoing transaction: " + found);
    }

    private static void copier(Steps steps) throws Exception {
        String from = TopicTools.make(steps, "copy-from", 1);
        String to = TopicTools.make(steps, "copy-to", 1);
        Feed.mixed(steps.bootstrap, from);
        Tool.Result copied = Tool.run(COPIER, "--broker-list", steps.bootstrap, "--input-topic", from,
                "--input-partition", "0", "--output-topic", to, "--max-messages", "40",
                "--consumer-group", steps.topic("copier"), "--transactional-id", steps.topic("copier"),
                "--transaction-size", "7", "--enable-random-aborts");
        steps.facts.put("exit", copied.exit());
        steps.records.put("copied/0", ClientTools.consumeCommitted(steps.bootstrap, to, 40));
    }
}
