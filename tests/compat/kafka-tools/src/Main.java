import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Runs Kafka's command-line tools one after the other in this JVM; a line of JSON for each. */
public final class Main {
    private Main() {}

    /** --bootstrap HOST:PORT --workload FILE --prefix PREFIX [names of scenarios]. */
    public static void main(String[] arguments) throws Exception {
        List<String> given = Arrays.asList(arguments);
        String bootstrap = given.get(given.indexOf("--bootstrap") + 1);
        String prefix = given.get(given.indexOf("--prefix") + 1);
        List<String> wanted = given.subList(Math.min(6, given.size()), given.size());
        PrintStream out = Tool.takeOver();
        ObjectMapper json = new ObjectMapper();
        for (Map.Entry<String, Scenario> entry : scenarios().entrySet()) {
            if (wanted.isEmpty() || wanted.contains(entry.getKey())) {
                out.println(json.writeValueAsString(row(entry.getKey(), entry.getValue(), bootstrap, prefix)));
                out.flush();
            }
        }
        Runtime.getRuntime().halt(0); // tools leave threads behind
    }

    private static Map<String, Scenario> scenarios() {
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        TopicTools.add(scenarios);
        ClusterTools.add(scenarios);
        GroupTools.add(scenarios);
        TransactionTools.add(scenarios);
        ClientTools.add(scenarios);
        ShareTools.add(scenarios);
        return scenarios;
    }

    private static Map<String, Object> row(String name, Scenario scenario, String bootstrap, String prefix) {
        Steps steps = new Steps(bootstrap, prefix);
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("scenario", name);
        try {
            scenario.run(steps);
            row.put("ok", true);
        } catch (Exception failed) {
            row.put("ok", false);
            row.put("error", failed.toString());
        }
        row.put("records", steps.records);
        row.put("facts", steps.facts);
        return row;
    }
}

/** One row of the result: a tool, and the steps that it is taken through. */
interface Scenario {
    void run(Steps steps) throws Exception;
}
