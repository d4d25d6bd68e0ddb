import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;

/** Tools that look at the cluster itself. */
final class ClusterTools {
    private static final String API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand";
    private static final String QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand";
    private static final String FEATURES = "org.apache.kafka.tools.FeatureCommand";
    private static final String CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand";
    private static final String CLUSTER = "org.apache.kafka.tools.ClusterTool";
    private static final Pattern API = Pattern.compile("(\\w+)\\((\\d+)\\): .*\\[usable: (\\d+)\\],?");
    // What producers, consumers and transactions need; a cluster may serve more.
    private static final Set<String> CLIENT_APIS = Set.of(
            "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator",
            "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "InitProducerId", "OffsetForLeaderEpoch",
            "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "CreateTopics", "DeleteTopics",
            "DeleteRecords", "DescribeConfigs", "IncrementalAlterConfigs", "DescribeProducers",
            "DescribeTransactions", "ListTransactions", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe");

    private ClusterTools() {}

    static void add(Map<String, Scenario> scenarios) {
        scenarios.put("kafka-broker-api-versions", ClusterTools::apiVersions);
        scenarios.put("kafka-metadata-quorum", ClusterTools::quorum);
        scenarios.put("kafka-features", ClusterTools::features);
        scenarios.put("kafka-client-metrics", ClusterTools::clientMetrics);
        scenarios.put("kafka-cluster", ClusterTools::cluster);
    }

    static String nodeId(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            return admin.describeCluster().nodes().get().iterator().next().idString();
        }
    }

    static String nodeCount(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            return String.valueOf(admin.describeCluster().nodes().get().size());
        }
    }

    static String clusterId(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            return admin.describeCluster().clusterId().get();
        }
    }

    private static void apiVersions(Steps steps) throws Exception {
        Tool.Result result = Tool.run(API_VERSIONS, "--bootstrap-server", steps.bootstrap);
        Set<String> usable = new TreeSet<>();
        for (String line : result.lines()) {
            Matcher matcher = API.matcher(line.strip());
            if (matcher.matches() && CLIENT_APIS.contains(matcher.group(1))) {
                usable.add(matcher.group(1) + " " + matcher.group(3));
            }
        }
        steps.facts.put("exit", result.exit());
        steps.facts.put("usable", usable);
    }

    private static void quorum(Steps steps) throws Exception {
        UnaryOperator<String> mask = line -> line.replaceAll("^(\\w+:) .*", "$1 #");
        steps.run("status", mask, QUORUM, "describe", "--status");
        // How many nodes there are is the cluster's own affair.
        UnaryOperator<String> row = line ->
                line.startsWith("NodeId") ? line : line.matches("\\d+ .* Leader") ? "# Leader" : "";
        steps.run("replication", row, QUORUM, "describe", "--replication");
    }

    private static void features(Steps steps) throws Exception {
        UnaryOperator<String> mask = line -> line.matches("Feature: (transaction|group|metadata)\\.version.*")
                ? line.replaceAll("Epoch: -?\\d+", "Epoch: #")
                : "";
        steps.run("describe", mask, FEATURES, "describe");
    }

    private static void clientMetrics(Steps steps) throws Exception {
        String name = steps.topic("metrics");
        // Lacuna takes no metrics of clients, so it refuses to subscribe to some; looking works.
        steps.run("describe", CLIENT_METRICS, "--describe", "--name", name);
        steps.run("list", line -> line.contains("P-") ? line : "", CLIENT_METRICS, "--list");
    }

    private static void cluster(Steps steps) throws Exception {
        Tool.Result id = Tool.run(CLUSTER, "cluster-id", "--bootstrap-server", steps.bootstrap);
        steps.keep("cluster-id", line -> line.replaceAll("Cluster ID: \\S{22}$", "Cluster ID: ID"), id);
        Tool.Result endpoints = Tool.run(CLUSTER, "list-endpoints", "--bootstrap-server", steps.bootstrap);
        UnaryOperator<String> mask = line -> line.replaceAll("\\d+ (127\\S+) \\d+", "NODE $1 PORT");
        List<String> lines = endpoints.lines();
        steps.keep("list-endpoints", mask, new Tool.Result(endpoints.exit(), lines.subList(0, 2), endpoints.errors()));
    }
}
