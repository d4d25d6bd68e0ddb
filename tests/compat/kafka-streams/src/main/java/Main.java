import com.google.gson.Gson;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/**
 * One application with exactly_once_v2 is started, ended and started again, killed and started again, and joined
 * by a second one. Each scenario goes on where the one before has left it.
 */
public final class Main {
    private static final int TRANSACTIONS = 6;

    private final String bootstrap;
    private final String prefix;

    private final List<String> only;

    private Main(String bootstrap, String prefix, List<String> only) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.only = only;
    }

    private interface Scenario {
        Map<String, List<String>> run() throws Exception;
    }

    /** --bootstrap HOST:PORT --workload FILE --prefix PREFIX [--only SCENARIO ...]; without --only all of them run. */
    public static void main(String[] arguments) throws Exception {
        List<String> given = Arrays.asList(arguments);
        String bootstrap = given.get(given.indexOf("--bootstrap") + 1);
        String prefix = given.get(given.indexOf("--prefix") + 1);
        int names = given.indexOf("--only");
        List<String> only = names < 0 ? List.of() : given.subList(names + 1, given.size());
        new Main(bootstrap, prefix, only).run();
    }

    private void run() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(
                            new NewTopic(prefix + "-words", Words.PARTITIONS, (short) 1),
                            new NewTopic(prefix + "-sums", Words.PARTITIONS, (short) 1)))
                    .all().get();
        }
        try (Words words = new Words(bootstrap, prefix); Sums sums = new Sums(bootstrap, prefix)) {
            say("exactly_once_v2", () -> exactlyOnce(words, sums));
            say("restart", () -> restart(words, sums));
            say("kill", () -> kill(words, sums));
            say("two instances", () -> two(words, sums));
            if (Instance.PROTOCOL.equals("streams")) {
                say("four instances", () -> four(words, sums));
            }
        }
    }

    /** A repartition topic, a store with its changelog; the input has aborted transactions. */
    private Map<String, List<String>> exactlyOnce(Words words, Sums sums) throws Exception {
        words.feed(TRANSACTIONS);
        Instance app = new Instance(bootstrap, prefix, "one");
        try {
            app.awaitRunning();
            words.feed(TRANSACTIONS);
            return sums.awaitExactly(words.expected());
        } finally {
            app.stop();
        }
    }

    /** The store comes back from the changelog; more has come meanwhile. */
    private Map<String, List<String>> restart(Words words, Sums sums) throws Exception {
        words.feed(TRANSACTIONS);
        Instance app = new Instance(bootstrap, prefix, "one");
        try {
            return sums.awaitExactly(words.expected());
        } finally {
            app.stop();
        }
    }

    /** Killed while it works: what it had open is aborted, and done again by the next. */
    private Map<String, List<String>> kill(Words words, Sums sums) throws Exception {
        Instance first = new Instance(bootstrap, prefix, "one");
        first.awaitRunning();
        words.feed(TRANSACTIONS);
        sums.awaitMoreThan(sums.seen());
        words.feed(TRANSACTIONS);
        first.kill();
        words.feed(TRANSACTIONS);
        Instance second = new Instance(bootstrap, prefix, "one");
        try {
            return sums.awaitExactly(words.expected());
        } finally {
            second.stop();
        }
    }

    /** The second takes over tasks, then the first one leaves. */
    private Map<String, List<String>> two(Words words, Sums sums) throws Exception {
        Instance first = new Instance(bootstrap, prefix, "one");
        first.awaitRunning();
        Instance second = new Instance(bootstrap, prefix, "two");
        try {
            second.awaitRunning();
            words.feed(TRANSACTIONS);
            sums.awaitMoreThan(sums.seen());
            first.stop();
            words.feed(TRANSACTIONS);
            return sums.awaitExactly(words.expected());
        } finally {
            second.stop();
        }
    }

    /** From one to four, and back to one. */
    private Map<String, List<String>> four(Words words, Sums sums) throws Exception {
        Instance first = new Instance(bootstrap, prefix, "one");
        first.awaitRunning();
        words.feed(TRANSACTIONS);
        List<Instance> others = new ArrayList<>();
        for (String name : List.of("two", "three", "four")) {
            others.add(new Instance(bootstrap, prefix, name));
        }
        try {
            for (Instance other : others) {
                other.awaitRunning();
            }
            words.feed(TRANSACTIONS);
            sums.awaitMoreThan(sums.seen());
            for (Instance other : others) {
                other.stop();
            }
            words.feed(TRANSACTIONS);
            return sums.awaitExactly(words.expected());
        } finally {
            first.stop();
        }
    }

    private void say(String name, Scenario scenario) {
        if (!only.isEmpty() && !only.contains(name)) {
            return;
        }
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("scenario", name);
        try {
            Map<String, List<String>> records = new TreeMap<>();
            scenario.run().forEach((word, sums) -> records.put("sums/" + word, sums));
            row.put("ok", true);
            row.put("records", records);
        } catch (Exception failed) {
            row.put("ok", false);
            row.put("error", failed.toString());
            row.put("records", Map.of());
        }
        System.out.println(new Gson().toJson(row));
        System.out.flush();
    }
}
