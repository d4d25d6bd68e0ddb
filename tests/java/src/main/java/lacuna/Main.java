package lacuna;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Runs named scenarios with the Java client against a broker; one JSON line each.
 *
 * <p>Arguments: {@code --bootstrap HOST:PORT [--kafka] [--list] [scenario ...]}. Without names all of them
 * run. {@code --kafka} says that control records take offsets. Exit code 0 when all passed.
 */
public final class Main {
    interface Scenario {
        void run(Env env) throws Exception;
    }

    private static final int SECONDS_PER_SCENARIO = 90;

    private Main() {}

    static Map<String, Scenario> scenarios() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        Transactions.register(all);
        Fencing.register(all);
        Consuming.register(all);
        Administration.register(all);
        Refusals.register(all);
        ConsumerGroups.register(all);
        ShareGroups.register(all);
        return all;
    }

    public static void main(String[] arguments) {
        String bootstrap = null;
        boolean kafka = false;
        TreeSet<String> wanted = new TreeSet<>();
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--bootstrap" -> bootstrap = arguments[++i];
                case "--kafka" -> kafka = true;
                case "--list" -> {
                    scenarios().keySet().forEach(System.out::println);
                    return;
                }
                default -> wanted.add(arguments[i]);
            }
        }
        if (bootstrap == null) {
            System.err.println("usage: --bootstrap HOST:PORT [--kafka] [--list] [scenario ...]");
            System.exit(2);
        }
        List<String> unknown = wanted.stream().filter(n -> !scenarios().containsKey(n)).toList();
        if (!unknown.isEmpty()) {
            System.err.println("no such scenario: " + unknown + "; --list names them");
            System.exit(2);
        }
        boolean passed = true;
        for (var entry : scenarios().entrySet()) {
            if (wanted.isEmpty() || wanted.contains(entry.getKey())) {
                passed &= runOne(entry.getKey(), entry.getValue(), new Env(bootstrap, kafka));
            }
        }
        System.exit(passed ? 0 : 1);
    }

    private static boolean runOne(String name, Scenario scenario, Env env) {
        long started = System.nanoTime();
        ExecutorService executor = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
        String error = null;
        try {
            executor.submit(() -> {
                scenario.run(env);
                return null;
            }).get(SECONDS_PER_SCENARIO, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            error = failed.getCause().toString() + at(failed.getCause());
        } catch (Exception failed) {
            error = failed.toString();
        } finally {
            executor.shutdownNow();
            env.close();
        }
        double seconds = (System.nanoTime() - started) / 1e9;
        String verdict = error == null ? "" : ", \"error\": " + quoted(error);
        System.out.printf("{\"scenario\": \"%s\", \"ok\": %b, \"checks\": %d, \"seconds\": %.2f%s}%n",
            name, error == null, env.checks(), seconds, verdict);
        return error == null;
    }

    private static String at(Throwable error) {
        for (StackTraceElement frame : error.getStackTrace()) {
            if (frame.getClassName().startsWith("lacuna.") && !frame.getClassName().contains("Env")) {
                return " at " + frame.getFileName() + ":" + frame.getLineNumber();
            }
        }
        return "";
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
