import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Prints messages as Kafka itself writes them, one a line: the API's key and name, "request" or "response", version,
 * version of the header, bytes in hex, and Kafka's JSON of the message.
 *
 * Of each version there are three: without a null, with a null wherever one may be, and with a mixture of both.
 */
public class Messages {
    private static final String[] TEXTS = {"", "a", "name", "ü✓"};
    private static final String LONG_TEXT = "x".repeat(130);
    /** At the top of a message. */
    private static final Set<String> NULLABLE_STRUCTS =
            Set.of("assignment", "cursor", "next_cursor", "topology", "user_endpoint");
    private final Random random;
    private final int nulls;

    private Messages(Random random, int nulls) {
        this.random = random;
        this.nulls = nulls;
    }

    public static void main(String[] arguments) throws Exception {
        for (ApiMessageType api : ApiMessageType.values()) {
            if (api.lowestSupportedVersion() <= api.highestSupportedVersion(true)) {
                print(api, "request", api.requestSchemas(), api.newRequest(), api::requestHeaderVersion);
                print(api, "response", api.responseSchemas(), api.newResponse(), api::responseHeaderVersion);
            }
        }
    }

    private static void print(
            ApiMessageType api, String kind, Schema[] schemas, ApiMessage message, Function<Short, Short> header)
            throws Exception {
        for (short version = 0; version < schemas.length; version++) {
            if (schemas[version] == null) {
                continue;
            }
            Schema schema = withNullableStructs(schemas[version]);
            for (int nulls = 0; nulls < 3; nulls++) {
                Random random = new Random(31L * (31L * api.apiKey() + version) + nulls);
                if (isRead(message, new Messages(random, nulls).bytes(schema), version)) {
                    System.out.println(String.join("\t", String.valueOf(api.apiKey()), api.name, kind,
                            String.valueOf(version), String.valueOf(header.apply(version)),
                            hex(message, version), json(message, version)));
                }
            }
        }
    }

    /** False for the few that a schema allows and the message does not: null records, or a struct that may be null. */
    private static boolean isRead(ApiMessage message, ByteBuffer bytes, short version) {
        try {
            message.read(new ByteBufferAccessor(bytes), version);
            return true;
        } catch (RuntimeException refused) {
            return false;
        }
    }

    private static String hex(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HexFormat.of().formatHex(buffer.array());
    }

    private static String json(ApiMessage message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return converter.getMethod("write", message.getClass(), short.class, boolean.class)
                .invoke(null, message, version, false).toString();
    }

    @SuppressWarnings("unchecked")
    private static Map<Integer, Field> fields(TaggedFields tagged) throws ReflectiveOperationException {
        java.lang.reflect.Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return (Map<Integer, Field>) fields.get(tagged);
    }

    private ByteBuffer bytes(Schema schema) throws ReflectiveOperationException {
        Struct struct = struct(schema);
        ByteBuffer buffer = ByteBuffer.allocate(schema.sizeOf(struct));
        schema.write(buffer, struct);
        return buffer.flip();
    }

    private Struct struct(Schema schema) throws ReflectiveOperationException {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) {
            struct.set(field, value(field.def.type));
        }
        return struct;
    }

    /** The schema with a byte before each struct that may be null, which Kafka's own schemas lack. */
    private static Schema withNullableStructs(Schema schema) {
        return new Schema(Arrays.stream(schema.fields()).map(field -> NULLABLE_STRUCTS.contains(field.def.name)
                && field.def.type instanceof Schema inner
                        ? new Field(field.def.name, new Nullable(inner), "") : field.def).toArray(Field[]::new));
    }

    private static final class Nullable extends Type {
        private final Schema schema;

        Nullable(Schema schema) {
            this.schema = schema;
        }

        @Override
        public void write(ByteBuffer buffer, Object value) {
            buffer.put((byte) (value == null ? -1 : 1));
            if (value != null) {
                schema.write(buffer, value);
            }
        }

        @Override
        public Object read(ByteBuffer buffer) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Object validate(Object value) {
            return value;
        }

        @Override
        public int sizeOf(Object value) {
            return value == null ? 1 : 1 + schema.sizeOf(value);
        }

        @Override
        public boolean isNullable() {
            return true;
        }
    }

    private Object value(Type type) throws ReflectiveOperationException {
        if (type.isNullable() && (nulls == 1 || nulls == 2 && random.nextBoolean())) {
            return null;
        }
        if (type instanceof TaggedFields tagged) {
            Map<Integer, Object> values = new TreeMap<>();
            for (Map.Entry<Integer, Field> each : fields(tagged).entrySet()) {
                values.put(each.getKey(), value(each.getValue().type));
            }
            return values;
        }
        if (type.isArray()) {
            List<Object> elements = new ArrayList<>();
            for (int left = nulls == 0 ? 1 : random.nextInt(3); left > 0; left--) {
                elements.add(value(type.arrayElementType().get()));
            }
            return elements.toArray();
        }
        if (type instanceof Nullable nullable) {
            return struct(nullable.schema);
        }
        return type instanceof Schema schema ? struct(schema) : plain(type.toString());
    }

    private Object plain(String type) throws ReflectiveOperationException {
        switch (type) {
            case "BOOLEAN": return random.nextBoolean();
            case "INT8": return (byte) number(Byte.MIN_VALUE, Byte.MAX_VALUE);
            case "INT16": return (short) number(Short.MIN_VALUE, Short.MAX_VALUE);
            case "UINT16": return (int) number(0, 0xffff);
            case "INT32": return (int) number(Integer.MIN_VALUE, Integer.MAX_VALUE);
            case "UINT32": return number(0, 0xffffffffL);
            case "INT64": return number(Long.MIN_VALUE, Long.MAX_VALUE);
            case "FLOAT64": return random.nextGaussian();
            case "UUID": return new Uuid(random.nextLong(), random.nextLong());
            default:
        }
        if (type.endsWith("STRING")) {
            return random.nextInt(30) == 0 ? LONG_TEXT : TEXTS[random.nextInt(TEXTS.length)];
        }
        byte[] bytes = new byte[random.nextInt(9)];
        random.nextBytes(bytes);
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return type.endsWith("RECORDS") ? records(buffer) : buffer;
    }

    private long number(long least, long most) {
        switch (random.nextInt(5)) {
            case 0: return least;
            case 1: return most;
            case 2: return least < 0 ? -1 : 1;
            case 3: return random.nextInt(100);
            default: return least + (random.nextLong() & Long.MAX_VALUE) % Math.max(most - least, 1L << 15);
        }
    }

    /** Kafka 4.2 moved the class into another package. */
    private static Object records(ByteBuffer buffer) throws ReflectiveOperationException {
        String parent = "org.apache.kafka.common.record.";
        Class<?> records;
        try {
            records = Class.forName(parent + "internal.MemoryRecords");
        } catch (ClassNotFoundException e) {
            records = Class.forName(parent + "MemoryRecords");
        }
        return records.getMethod("readableRecords", ByteBuffer.class).invoke(null, buffer);
    }
}
