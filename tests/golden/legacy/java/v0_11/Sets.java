import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

/** Magic 0 to 2, and the conversion that a broker 0.11 makes for Fetch v0 to v3. */
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
        for (Record record : MemoryRecords.readableRecords(set).records()) {
            record.ensureValid();
            rows.add(OldClient.Row.of(record.offset(), record.timestamp(), record.key(), record.value()));
        }
        return rows;
    }

    static byte[] convert(ByteBuffer batches, byte magic, long firstOffset) {
        return OldClient.copied(
                MemoryRecords.readableRecords(batches).downConvert(magic, firstOffset).buffer());
    }
}
