import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;

/**
 * The steps of one scenario: runs of tools, and what must be equal on both clusters of what they print.
 *
 * <p>What is this cluster's alone is masked in every line: addresses, ids, the prefix of names, spaces.
 */
final class Steps {
    private static final Pattern SPACES = Pattern.compile("\\s+");
    private static final Pattern ADDRESS = Pattern.compile("(127\\.0\\.0\\.1:\\d+,?)+");
    /** A member's, which is the bridge's where a broker is in a container. */
    private static final Pattern CLIENT_HOST = Pattern.compile("/(\\d+\\.){3}\\d+");
    private static final Pattern TOPIC_ID = Pattern.compile("(TopicId: |id=)[\\w-]{22}");
    private static final Pattern MEMBER_ID = Pattern.compile("-?[0-9a-f]{8}-[0-9a-f-]{27}");

    final String bootstrap;
    final String prefix;
    final Map<String, Object> facts = new LinkedHashMap<>();
    final Map<String, List<String>> records = new LinkedHashMap<>();

    Steps(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
    }

    String topic(String name) {
        return prefix + "-tool-" + name;
    }

    /** Runs a tool with --bootstrap-server; its masked output is the fact `step`. */
    Tool.Result run(String step, String className, String... arguments) throws Exception {
        return run(step, line -> line, className, arguments);
    }

    Tool.Result run(String step, UnaryOperator<String> mask, String className, String... arguments)
            throws Exception {
        return run(step, "", mask, className, arguments);
    }

    Tool.Result run(String step, String input, UnaryOperator<String> mask, String className, String... arguments)
            throws Exception {
        List<String> all = new ArrayList<>(List.of("--bootstrap-server", bootstrap));
        all.addAll(List.of(arguments));
        Tool.Result result = Tool.withInput(input, className, all.toArray(String[]::new));
        keep(step, mask, result);
        return result;
    }

    /** Records a run that was started otherwise. */
    void keep(String step, UnaryOperator<String> mask, Tool.Result result) {
        List<String> lines = new ArrayList<>();
        if (result.exit() != 0) {
            lines.add("exit " + result.exit());
        }
        lines.addAll(masked(mask, result.lines()));
        masked(mask, result.errors()).stream().map(line -> "stderr: " + line).forEach(lines::add);
        facts.put(step, lines);
    }

    /** Without the traces of exceptions, which are the tool's own. */
    private List<String> masked(UnaryOperator<String> mask, List<String> lines) {
        return lines.stream()
                .map(this::plain)
                .filter(line -> !line.startsWith("at ") && !line.matches("\\.\\.\\. \\d+ more"))
                .map(mask)
                .filter(line -> !line.isBlank())
                .toList();
    }

    private String plain(String line) {
        String masked = SPACES.matcher(line.strip()).replaceAll(" ");
        masked = masked.replace(prefix, "P");
        masked = ADDRESS.matcher(masked).replaceAll("HOST:PORT");
        masked = CLIENT_HOST.matcher(masked).replaceAll("/HOST");
        masked = TOPIC_ID.matcher(masked).replaceAll("$1ID");
        return MEMBER_ID.matcher(masked).replaceAll("-UUID");
    }

    /** Masks the columns (from 0) of a table, header left as it is. */
    static UnaryOperator<String> columns(String header, int... masked) {
        return line -> {
            String[] cells = line.split(" ");
            if (line.startsWith(header) || cells.length <= masked[masked.length - 1]) {
                return line;
            }
            for (int column : masked) {
                if (!cells[column].equals("-")) {
                    cells[column] = "#";
                }
            }
            return String.join(" ", cells);
        };
    }

    /** Keeps the type of an error, not its words. */
    static String errorTypes(String line) {
        return line.replaceAll("(org\\.apache\\.kafka\\.common\\.errors\\.\\w+): .*", "$1");
    }

    /** Masks every number. */
    static String numbers(String line) {
        return line.replaceAll("\\d+(\\.\\d+)?", "#");
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}
