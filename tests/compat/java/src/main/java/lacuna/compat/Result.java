package lacuna.compat;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

/** What one scenario has to tell: one line of JSON. Several threads may add to it. */
final class Result {
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();

    private final String scenario;
    private final Map<String, List<String>> records = new TreeMap<>();
    private final Map<String, Object> facts = new LinkedHashMap<>();
    private String unsupported;
    private String error;

    Result(String scenario) {
        this.scenario = scenario;
    }

    synchronized void unsupported(String reason) {
        unsupported = reason;
    }

    synchronized void fail(String what, Throwable cause) {
        error = what;
        cause.printStackTrace();
    }

    synchronized void fact(String name, Object value) {
        facts.put(name, value);
    }

    /** The list of a topic's partition, which is there even if nothing is ever added. */
    synchronized List<String> of(String name, int partition) {
        return records.computeIfAbsent(name + "/" + partition, place -> new ArrayList<>());
    }

    synchronized void add(String name, ConsumerRecord<String, String> record) {
        of(name, record.partition()).add(text(record));
    }

    synchronized int count() {
        return records.values().stream().mapToInt(List::size).sum();
    }

    static String text(ConsumerRecord<String, String> record) {
        StringBuilder out = new StringBuilder();
        out.append(orTilde(record.key())).append('=').append(orTilde(record.value()));
        if (Features.HEADERS) {
            char separator = '|';
            for (Header header : record.headers()) {
                byte[] value = header.value();
                String shown = value == null ? "~" : new String(value, StandardCharsets.UTF_8);
                out.append(separator).append(header.key()).append(':').append(shown);
                separator = ',';
            }
        }
        return out.toString();
    }

    private static String orTilde(String text) {
        return text == null ? "~" : text;
    }

    synchronized String line() {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", scenario);
        if (unsupported != null) {
            line.put("unsupported", unsupported);
            return JSON.toJson(line);
        }
        line.put("ok", error == null);
        if (error != null) {
            line.put("error", error);
        }
        line.put("records", records);
        line.put("facts", facts);
        return JSON.toJson(line);
    }
}
