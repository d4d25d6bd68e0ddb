import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Message sets written, read and converted by an old kafka-clients, as lines say on standard input.
 *
 * <pre>
 * write MAGIC CODEC TIMESTAMP_TYPE APPEND_TIME ROW...   -> the set in hex
 * read HEX                                              -> ROW...
 * convert MAGIC FIRST_OFFSET HEX                        -> the set in hex
 * </pre>
 * A row is offset:timestamp:key:value, bytes in hex, "-" for null. One line is answered by one.
 */
public final class OldClient {
    record Row(long offset, long timestamp, byte[] key, byte[] value) {
        static Row parse(String text) {
            String[] parts = text.split(":", -1);
            return new Row(
                    Long.parseLong(parts[0]), Long.parseLong(parts[1]), bytes(parts[2]), bytes(parts[3]));
        }

        static Row of(long offset, long timestamp, ByteBuffer key, ByteBuffer value) {
            return new Row(offset, timestamp, copied(key), copied(value));
        }

        String text() {
            return offset + ":" + timestamp + ":" + hex(key) + ":" + hex(value);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "write":
                List<Row> rows = new ArrayList<>();
                for (int i = 5; i < words.length; i++) rows.add(Row.parse(words[i]));
                byte magic = Byte.parseByte(words[1]);
                return hex(Sets.write(magic, words[2], words[3], Long.parseLong(words[4]), rows));
            case "read":
                List<String> found = new ArrayList<>();
                for (Row row : Sets.read(ByteBuffer.wrap(bytes(words[1])))) found.add(row.text());
                return String.join(" ", found);
            case "convert":
                ByteBuffer batches = ByteBuffer.wrap(bytes(words[3]));
                return hex(Sets.convert(batches, Byte.parseByte(words[1]), Long.parseLong(words[2])));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    static byte[] copied(ByteBuffer buffer) {
        if (buffer == null) return null;
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private static byte[] bytes(String hex) {
        return hex.equals("-") ? null : java.util.HexFormat.of().parseHex(hex);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : java.util.HexFormat.of().formatHex(bytes);
    }
}
