package lacuna.compat;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Committed offsets and two consumers that share a topic. */
final class Groups {
    private static final int FIRST = 5;
    private static final int GROUP_RECORDS = 200;

    private Groups() {}

    static void commit(Env env, Result result) {
        TopicPartition where = env.partition("mixed", 0);
        try (KafkaConsumer<String, String> first = env.consumer("commit", FIRST)) {
            Features.subscribe(first, where.topic(), new Nothing());
            List<ConsumerRecord<String, String>> taken = new ArrayList<>();
            while (taken.size() < FIRST) {
                Features.poll(first, 100).forEach(taken::add);
            }
            taken.subList(0, FIRST).forEach(record -> result.add("mixed", record));
            long next = taken.get(FIRST - 1).offset() + 1;
            first.commitSync(Map.of(where, new OffsetAndMetadata(next)));
        }
        goOn(env, result, where);
        result.fact("lag", lag(env, "commit", where));
    }

    /** The second consumer of the group; it begins where the first one committed. */
    private static void goOn(Env env, Result result, TopicPartition where) {
        try (KafkaConsumer<String, String> second = env.consumer("commit", 500)) {
            Features.subscribe(second, where.topic(), new Nothing());
            while (second.assignment().isEmpty()) {
                Features.poll(second, 100).forEach(record -> result.add("mixed", record));
            }
            long end = Features.end(second, where);
            Reading.toEnd(second, where, end, record -> result.add("mixed", record));
            second.commitSync();
        }
    }

    /** The end offset less the group's committed one, asked by a consumer of its own. */
    static long lag(Env env, String group, TopicPartition where) {
        try (KafkaConsumer<String, String> asking = env.consumer(group, 500)) {
            Features.assign(asking, List.of(where));
            return Features.end(asking, where) - Features.committed(asking, where);
        }
    }

    static void group(Env env, Result result) throws Exception {
        Member one = new Member(env, result);
        Member two = new Member(env, result);
        try {
            one.start();
            two.start();
            until(() -> one.assigned == 2 && two.assigned == 2 && result.count() >= GROUP_RECORDS, one, two);
            result.fact("assigned", Stream.of(one.assigned, two.assigned).sorted().toList());
            two.leave();
            until(() -> one.assigned == 4, one, two);
            result.fact("alone", one.assigned);
            one.leave();
        } finally {
            one.interrupt();
            two.interrupt();
        }
    }

    private static void until(BooleanSupplier condition, Member... members) throws Exception {
        while (!condition.getAsBoolean()) {
            Thread.sleep(20); // members poll in threads of their own; the scenario has its time limit
            for (Member member : members) {
                if (member.failure != null) {
                    throw member.failure;
                }
            }
        }
    }

    /** One consumer of the group in its own thread, which commits whenever partitions are taken from it. */
    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final Env env;
        private final Result result;
        private volatile boolean leaving;
        volatile int assigned;
        volatile Exception failure;

        Member(Env env, Result result) {
            this.env = env;
            this.result = result;
            this.consumer = env.consumer("g", 20);
            setDaemon(true);
        }

        @Override
        public void run() {
            try (consumer) {
                Features.subscribe(consumer, env.full("group"), this);
                while (!leaving) {
                    Features.poll(consumer, 100).forEach(record -> result.add("group", record));
                    assigned = consumer.assignment().size();
                }
                consumer.commitSync();
            } catch (Exception failed) {
                failure = failed;
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) {
                consumer.commitSync();
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            // poll's return tells the loop
        }

        void leave() throws Exception {
            leaving = true;
            join();
            if (failure != null) {
                throw failure;
            }
        }
    }

    /** A listener for those who need none; kafka-clients 0.9 has no subscription to a list without one. */
    static final class Nothing implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}
    }
}
