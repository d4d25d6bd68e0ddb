import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.LogEntry;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.TimestampType;

/** Magic 0 and 1, as kafka-clients 0.10.2 has them. */
final class Sets {
    static byte[] write(byte magic, String codec, String type, long appendTime, List<OldClient.Row> rows) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
                ByteBuffer.allocate(1 << 16), magic, CompressionType.forName(codec),
                TimestampType.forName(type), rows.get(0).offset(), appendTime);
        for (OldClient.Row row : rows) {
            builder.appendWithOffset(row.offset(), row.timestamp(), row.key(), row.value());
        }
        return OldClient.copied(builder.build().buffer());
    }

    static List<OldClient.Row> read(ByteBuffer set) {
        List<OldClient.Row> rows = new ArrayList<>();
        for (LogEntry entry : MemoryRecords.readableRecords(set).deepEntries()) {
            entry.record().ensureValid();
            rows.add(OldClient.Row.of(entry.offset(), entry.record().timestamp(),
                    entry.record().key(), entry.record().value()));
        }
        return rows;
    }

    static byte[] convert(ByteBuffer batches, byte magic, long firstOffset) {
        throw new UnsupportedOperationException("0.10 knows magic 0 and 1 only");
    }
}
