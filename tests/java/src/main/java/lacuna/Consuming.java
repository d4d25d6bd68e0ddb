package lacuna;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Groups, consume-process-produce, fetch sessions (S13, S21, S26). */
final class Consuming {
    private Consuming() {}

    static void register(Map<String, Main.Scenario> all) {
        all.put("classic_group_rebalances", env -> rebalances(env, RangeAssignor.class.getName()));
        all.put("cooperative_sticky_group", env -> rebalances(env, CooperativeStickyAssignor.class.getName()));
        all.put("static_membership", Consuming::staticMembership);
        all.put("exactly_once_loop", Consuming::exactlyOnce);
        all.put("offsets_follow_the_transaction", Consuming::offsets);
        all.put("zombie_group_member_cannot_commit_offsets", Consuming::zombieMember);
        all.put("long_fetch_session", Consuming::session);
        all.put("out_of_range", Consuming::outOfRange);
        all.put("headers_nulls_and_times", Consuming::contents);
    }

    private static KafkaConsumer<String, String> member(Env env, String group, String topic, Object... more) {
        Object[] settings = new Object[more.length + 10];
        Object[] base = {"group.id", group, "auto.offset.reset", "earliest", "group.protocol", "classic",
            "session.timeout.ms", 45000, "heartbeat.interval.ms", 200};
        System.arraycopy(base, 0, settings, 0, base.length);
        System.arraycopy(more, 0, settings, base.length, more.length);
        KafkaConsumer<String, String> made = env.consumer("read_committed", settings);
        made.subscribe(List.of(topic));
        return made;
    }

    private static void until(Env env, List<KafkaConsumer<String, String>> members, List<Integer> sizes)
            throws Exception {
        env.eventually(() -> {
            for (KafkaConsumer<String, String> member : members) {
                member.poll(Duration.ofMillis(50));
            }
            return members.stream().map(m -> m.assignment().size()).toList().equals(sizes);
        });
    }

    private static void rebalances(Env env, String assignor) throws Exception {
        String topic = env.topic(4, Map.of());
        String group = env.name("g");
        Object[] config = {"partition.assignment.strategy", assignor};
        KafkaConsumer<String, String> one = member(env, group, topic, config);
        until(env, List.of(one), List.of(4));
        KafkaConsumer<String, String> two = member(env, group, topic, config);
        until(env, List.of(one, two), List.of(2, 2));
        Set<TopicPartition> all = new HashSet<>(one.assignment());
        all.addAll(two.assignment());
        env.equal("all partitions have an owner", 4, all.size());
        env.equal("described members", 2,
            env.admin().describeConsumerGroups(List.of(group)).all().get().get(group).members().size());
        two.close();
        until(env, List.of(one), List.of(4));
    }

    private static void staticMembership(Env env) throws Exception {
        String topic = env.topic(2, Map.of());
        String group = env.name("g");
        KafkaConsumer<String, String> one = member(env, group, topic, "group.instance.id", "one");
        KafkaConsumer<String, String> two = member(env, group, topic, "group.instance.id", "two");
        until(env, List.of(one, two), List.of(1, 1));
        int generation = one.groupMetadata().generationId();
        Set<TopicPartition> held = two.assignment();
        two.close();
        KafkaConsumer<String, String> again = member(env, group, topic, "group.instance.id", "two");
        until(env, List.of(one, again), List.of(1, 1));
        env.equal("same partition", held, again.assignment());
        env.equal("same generation", generation, one.groupMetadata().generationId());
    }

    private static void offsets(Env env) throws Exception {
        TopicPartition source = env.topic();
        TopicPartition sink = env.topic();
        env.send(env.producer(null), source, "0");
        String group = env.name("g");
        KafkaConsumer<String, String> reader = member(env, group, source.topic());
        until(env, List.of(reader), List.of(1));
        KafkaProducer<String, String> writer = env.producer(env.name("t"));
        for (boolean commit : new boolean[] {false, true}) {
            writer.beginTransaction();
            env.send(writer, sink, commit ? "yes" : "no");
            writer.sendOffsetsToTransaction(
                Map.of(source, new OffsetAndMetadata(commit ? 1 : 7, "m")), reader.groupMetadata());
            if (commit) {
                writer.commitTransaction();
            } else {
                writer.abortTransaction();
            }
            OffsetAndMetadata committed = reader.committed(Set.of(source)).get(source);
            env.equal("committed", commit ? new OffsetAndMetadata(1, "m") : null, committed);
        }
        env.equal("sink", List.of(1 + env.marker() + ":yes"), env.committed(sink));
    }

    /** Consume-process-produce whose worker is dropped in mid-transaction twice. */
    private static void exactlyOnce(Env env) throws Exception {
        TopicPartition source = env.topic();
        TopicPartition sink = env.topic();
        KafkaProducer<String, String> plain = env.producer(null);
        for (int i = 0; i < 60; i++) {
            env.send(plain, source, "v" + i);
        }
        String group = env.name("g");
        String id = env.name("t");
        for (int stopAfter : new int[] {13, 21, 1000}) {
            work(env, group, id, source, sink, stopAfter);
        }
        env.awaitStable(sink);
        List<String> got = env.committed(sink).stream().map(row -> row.split(":")[1]).toList();
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            expected.add("v" + i);
        }
        env.equal("every input once", expected, got);
    }

    private static void work(
            Env env, String group, String id, TopicPartition source, TopicPartition sink, int stopAfter)
            throws Exception {
        KafkaProducer<String, String> writer = env.producer(id);
        int done = 0;
        long end = env.latest(source, true);
        try (KafkaConsumer<String, String> reader = member(env, group, source.topic(), "max.poll.records", 5)) {
            while (reader.assignment().isEmpty() || reader.position(source) < end) {
                ConsumerRecords<String, String> records = reader.poll(Duration.ofMillis(100));
                if (records.isEmpty()) {
                    continue;
                }
                writer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    writer.send(new ProducerRecord<>(sink.topic(), sink.partition(), null, record.value()));
                    next.put(source, new OffsetAndMetadata(record.offset() + 1));
                    done++;
                }
                writer.flush();
                if (done >= stopAfter) {
                    return;
                }
                writer.sendOffsetsToTransaction(next, reader.groupMetadata());
                writer.commitTransaction();
            }
        }
    }

    /** KIP-447: a member of an old generation cannot commit through its transaction. */
    private static void zombieMember(Env env) throws Exception {
        TopicPartition source = env.topic();
        String group = env.name("g");
        KafkaConsumer<String, String> reader = member(env, group, source.topic());
        until(env, List.of(reader), List.of(1));
        ConsumerGroupMetadata now = reader.groupMetadata();
        ConsumerGroupMetadata old = new ConsumerGroupMetadata(
            now.groupId(), now.generationId() - 1, now.memberId(), now.groupInstanceId());
        KafkaProducer<String, String> writer = env.producer(env.name("t"));
        writer.beginTransaction();
        env.fails("offsets of an old generation", () -> {
            writer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(1)), old);
            return null;
        }, CommitFailedException.class);
        writer.abortTransaction();
        env.equal("nothing committed", null, reader.committed(Set.of(source)).get(source));
    }

    private static void session(Env env) throws Exception {
        String topic = env.topic(12, Map.of());
        List<TopicPartition> all = new ArrayList<>();
        for (int partition = 0; partition < 12; partition++) {
            all.add(new TopicPartition(topic, partition));
        }
        KafkaProducer<String, String> writer = env.producer(env.name("t"));
        try (KafkaConsumer<String, String> who = env.consumer("read_committed")) {
            who.assign(all);
            who.seekToBeginning(all);
            List<String> got = new ArrayList<>();
            List<String> expected = new ArrayList<>();
            for (int round = 0; round < 60; round++) {
                TopicPartition where = all.get((round * 5) % 12);
                boolean commit = round % 4 != 3;
                env.transaction(writer, where, commit, "r" + round);
                if (commit) {
                    expected.add("r" + round);
                }
                env.eventually(() -> {
                    who.poll(Duration.ofMillis(100)).forEach(record -> got.add(record.value()));
                    return got.size() >= expected.size();
                });
            }
            env.equal("records", expected, got);
        }
    }

    private static void outOfRange(Env env) throws Exception {
        TopicPartition where = env.topic();
        env.send(env.producer(null), where, "x");
        try (KafkaConsumer<String, String> who = env.consumer("read_committed")) {
            who.assign(List.of(where));
            who.seek(where, 50);
            env.fails("poll beyond the end", () -> {
                for (int i = 0; i < 600; i++) {
                    who.poll(Duration.ofMillis(100));
                }
                return null;
            }, OffsetOutOfRangeException.class);
        }
    }

    private static void contents(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(null, "linger.ms", 20);
        long time = 1_760_000_000_000L;
        ProducerRecord<String, String> headed = new ProducerRecord<>(where.topic(), 0, time, "k", "v");
        headed.headers().add("h", new byte[] {0, -1}).add("h", null).add("", new byte[0]);
        who.send(headed);
        who.send(new ProducerRecord<>(where.topic(), 0, time + 1, "tombstone", (String) null));
        who.send(new ProducerRecord<>(where.topic(), 0, time + 2, null, ""));
        who.flush();
        try (KafkaConsumer<String, String> reader = env.consumer("read_committed")) {
            reader.assign(List.of(where));
            reader.seek(where, 0);
            List<ConsumerRecord<String, String>> rows = new ArrayList<>();
            env.eventually(() -> {
                reader.poll(Duration.ofMillis(200)).forEach(rows::add);
                return rows.size() == 3;
            });
            env.equal("headers", headed.headers(), rows.get(0).headers());
            env.equal("keys", java.util.Arrays.asList("k", "tombstone", null),
                rows.stream().map(ConsumerRecord::key).toList());
            env.equal("values", java.util.Arrays.asList("v", null, ""),
                rows.stream().map(ConsumerRecord::value).toList());
            env.equal("times", List.of(time, time + 1, time + 2),
                rows.stream().map(ConsumerRecord::timestamp).toList());
        }
    }
}
