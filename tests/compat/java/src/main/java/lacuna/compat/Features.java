package lacuna.compat;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/**
 * What kafka-clients 0.9 to 4.x call differently. The program is compiled once, against 2.8, which knows the old
 * calls and the new ones; a call is linked only when it is first made, so a branch that is not taken costs nothing.
 */
final class Features {
    static final boolean TRANSACTIONS = has(KafkaProducer.class, "beginTransaction");
    static final boolean HEADERS = has(ConsumerRecord.class, "headers");
    static final boolean ZSTD = hasClass("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
    private static final boolean DURATIONS = has(KafkaConsumer.class, "poll", Duration.class);
    private static final boolean COLLECTIONS = has(KafkaConsumer.class, "assign", Collection.class);
    private static final boolean END_OFFSETS = has(KafkaConsumer.class, "endOffsets", Collection.class);
    private static final boolean COMMITTED_OF_ALL = has(KafkaConsumer.class, "committed", Set.class);
    private static final boolean GROUP_METADATA = has(KafkaConsumer.class, "groupMetadata");

    private Features() {}

    @SuppressWarnings("deprecation")
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer, long milliseconds) {
        return DURATIONS ? consumer.poll(Duration.ofMillis(milliseconds)) : consumer.poll(milliseconds);
    }

    static void assign(KafkaConsumer<String, String> consumer, List<TopicPartition> partitions) {
        if (COLLECTIONS) {
            consumer.assign(partitions);
        } else {
            call(consumer, "assign", new Class<?>[] {List.class}, partitions);
        }
    }

    static void subscribe(
            KafkaConsumer<String, String> consumer, String topic, ConsumerRebalanceListener listener) {
        if (COLLECTIONS) {
            consumer.subscribe(List.of(topic), listener);
        } else {
            Class<?>[] types = {List.class, ConsumerRebalanceListener.class};
            call(consumer, "subscribe", types, List.of(topic), listener);
        }
    }

    static void seekToBeginning(KafkaConsumer<String, String> consumer, List<TopicPartition> partitions) {
        if (COLLECTIONS) {
            consumer.seekToBeginning(partitions);
        } else {
            Object all = partitions.toArray(new TopicPartition[0]);
            call(consumer, "seekToBeginning", new Class<?>[] {TopicPartition[].class}, all);
        }
    }

    /** The offset behind the last one that this consumer may read; it must be assigned. */
    static long end(KafkaConsumer<String, String> consumer, TopicPartition partition) {
        if (END_OFFSETS) {
            return consumer.endOffsets(List.of(partition)).get(partition);
        }
        long before = consumer.position(partition);
        if (COLLECTIONS) {
            consumer.seekToEnd(List.of(partition));
        } else {
            Object all = new TopicPartition[] {partition};
            call(consumer, "seekToEnd", new Class<?>[] {TopicPartition[].class}, all);
        }
        long end = consumer.position(partition);
        consumer.seek(partition, before);
        return end;
    }

    /** The group's committed offset; -1 if there is none. */
    @SuppressWarnings("deprecation")
    static long committed(KafkaConsumer<String, String> consumer, TopicPartition partition) {
        OffsetAndMetadata found = COMMITTED_OF_ALL
            ? consumer.committed(Set.of(partition)).get(partition)
            : consumer.committed(partition);
        return found == null ? -1 : found.offset();
    }

    @SuppressWarnings("deprecation")
    static void sendOffsets(
            KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer,
            String group,
            Map<TopicPartition, OffsetAndMetadata> offsets) {
        if (GROUP_METADATA) {
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        } else {
            producer.sendOffsetsToTransaction(offsets, group);
        }
    }

    private static boolean has(Class<?> owner, String method, Class<?>... types) {
        try {
            owner.getMethod(method, types);
            return true;
        } catch (NoSuchMethodException | NoClassDefFoundError absent) {
            return false;
        }
    }

    private static boolean hasClass(String name) {
        try {
            Class.forName(name);
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    private static void call(Object target, String name, Class<?>[] types, Object... arguments) {
        try {
            Method method = target.getClass().getMethod(name, types);
            method.invoke(target, arguments);
        } catch (InvocationTargetException failed) {
            throw new IllegalStateException(name + " failed", failed.getCause());
        } catch (ReflectiveOperationException absent) {
            throw new IllegalStateException("this version has no " + name, absent);
        }
    }
}
