package lacuna.compat;

import com.google.gson.Gson;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * kafka-clients in the client matrix: {@code --bootstrap HOST:PORT --workload FILE --prefix PREFIX
 * [--group-protocol classic|consumer]}. Runs every scenario of tests/compat/README.md, one JSON line each.
 */
public final class Main {
    /** One scenario: fills the result, or fails. */
    interface Scenario {
        void run(Env env, Result result) throws Exception;
    }

    private static final int SECONDS_PER_SCENARIO = 30;

    private Main() {}

    static Map<String, Scenario> scenarios() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        all.put("produce", Writing::produce);
        all.put("transactions", Writing::transactions);
        all.put("holes", Reading::holes);
        all.put("holes_inside", Reading::holesInside);
        all.put("commit", Groups::commit);
        all.put("group", Groups::group);
        all.put("eos", ExactlyOnce::run);
        all.put("legacy", Reading::legacy);
        if (System.getenv("COMPAT_SECURED") != null) {
            all.put("scram", (env, result) -> ExactlyOnce.run(env.secured("scram", Secured.byPassword()), result));
            all.put("oauthbearer", (env, result) ->
                ExactlyOnce.run(env.secured("oauthbearer", Secured.byToken()), result));
        }
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new LinkedHashMap<>();
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            options.put(arguments[i], arguments[i + 1]);
        }
        for (String needed : new String[] {"--bootstrap", "--workload", "--prefix"}) {
            if (!options.containsKey(needed)) {
                System.err.println("usage: --bootstrap HOST:PORT --workload FILE --prefix PREFIX");
                System.exit(2);
            }
        }
        String text = Files.readString(Path.of(options.get("--workload")));
        Workload workload = new Gson().fromJson(text, Workload.class);
        Env env = new Env(options, workload);
        for (Map.Entry<String, Scenario> entry : scenarios().entrySet()) {
            System.out.println(runOne(entry.getKey(), entry.getValue(), env));
            System.out.flush();
        }
        System.exit(0); // a scenario past its time limit leaves threads behind
    }

    private static String runOne(String name, Scenario scenario, Env env) throws InterruptedException {
        Result result = new Result(name);
        long started = System.nanoTime();
        ExecutorService executor = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
        try {
            executor.submit(() -> {
                scenario.run(env, result);
                return null;
            }).get(SECONDS_PER_SCENARIO, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            result.fail("not done after " + SECONDS_PER_SCENARIO + " s", late);
        } catch (ExecutionException failed) {
            result.fail(failed.getCause().toString(), failed.getCause());
        } finally {
            executor.shutdownNow(); // interrupts what is late, so that it closes its clients
            System.err.printf("%s: %.1f s%n", name, (System.nanoTime() - started) / 1e9);
        }
        return result.line();
    }
}

/** What the runner wants written; its file's field names. */
final class Workload {
    /** One record; a null key or value is null, headers are pairs of name and value. */
    static final class Entry {
        int partition;
        String key;
        String value;
        List<List<String>> headers;
    }

    /** One transaction and how it ends. */
    static final class Transaction {
        boolean commit;
        List<Entry> records;
    }

    List<Entry> produce;
    List<Transaction> transactions;
}
