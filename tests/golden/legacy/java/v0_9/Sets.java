import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.LogEntry;
import org.apache.kafka.common.record.MemoryRecords;

/** Magic 0, as kafka-clients 0.9 has it. */
final class Sets {
    /** The inner offsets are the rows'; the wrapper's is the number of rows - 1, as a producer has it. */
    static byte[] write(byte magic, String codec, String type, long appendTime, List<OldClient.Row> rows) {
        CompressionType compression = CompressionType.forName(codec);
        MemoryRecords records = MemoryRecords.emptyRecords(ByteBuffer.allocate(1 << 16), compression);
        for (OldClient.Row row : rows) records.append(row.offset(), row.key(), row.value());
        records.close();
        return OldClient.copied(records.buffer());
    }

    static List<OldClient.Row> read(ByteBuffer set) {
        List<OldClient.Row> rows = new ArrayList<>();
        for (LogEntry entry : MemoryRecords.readableRecords(set)) {
            entry.record().ensureValid();
            rows.add(OldClient.Row.of(entry.offset(), -1, entry.record().key(), entry.record().value()));
        }
        return rows;
    }

    static byte[] convert(ByteBuffer batches, byte magic, long firstOffset) {
        throw new UnsupportedOperationException("0.9 knows magic 0 only");
    }
}
