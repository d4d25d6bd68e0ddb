package lacuna;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.errors.InvalidRegularExpression;

/** Consumer groups of KIP-848 (S26, S9): the coordinator's heartbeat interval of 5 s sets the pace. */
final class ConsumerGroups {
    private ConsumerGroups() {}

    static void register(Map<String, Main.Scenario> all) {
        all.put("consumer_group_rebalances", ConsumerGroups::rebalances);
        all.put("consumer_group_regex", ConsumerGroups::regex);
        all.put("consumer_group_static_member", ConsumerGroups::staticMember);
        all.put("consumer_group_offsets_in_transactions", ConsumerGroups::offsets);
        all.put("consumer_group_upgrade_and_back", ConsumerGroups::upgradeAndBack);
        all.put("consumer_group_administration", ConsumerGroups::administration);
    }

    private static KafkaConsumer<String, String> member(Env env, String group, Object... more) {
        return join(env, group, "consumer", more);
    }

    private static KafkaConsumer<String, String> join(Env env, String group, String protocol, Object... more) {
        List<Object> settings = new ArrayList<>(List.of("group.id", group, "auto.offset.reset", "earliest",
            "group.protocol", protocol));
        if (protocol.equals("classic")) {
            settings.addAll(List.of("session.timeout.ms", 45000, "heartbeat.interval.ms", 200,
                "partition.assignment.strategy", CooperativeStickyAssignor.class.getName()));
        }
        settings.addAll(List.of(more));
        return env.consumer("read_committed", settings.toArray());
    }

    private static Set<TopicPartition> until(Env env, List<KafkaConsumer<String, String>> members, Integer... sizes)
            throws Exception {
        Set<TopicPartition> held = new HashSet<>();
        env.eventually(() -> {
            held.clear();
            for (KafkaConsumer<String, String> member : members) {
                member.poll(Duration.ofMillis(50));
                held.addAll(member.assignment());
            }
            List<Integer> got = members.stream().map(m -> m.assignment().size()).sorted().toList();
            return got.equals(List.of(sizes)) && held.size() == got.stream().mapToInt(n -> n).sum();
        });
        return held;
    }

    private static ConsumerGroupDescription describe(Env env, String group) throws Exception {
        return env.admin().describeConsumerGroups(List.of(group)).all().get().get(group);
    }

    private static void rebalances(Env env) throws Exception {
        String topic = env.topic(6, Map.of());
        String group = env.name("g");
        List<KafkaConsumer<String, String>> members = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            members.add(member(env, group, "group.remote.assignor", i == 2 ? "range" : "uniform"));
            members.get(i).subscribe(List.of(topic));
        }
        until(env, members, 2, 2, 2);
        // once the coordinator has heard from all what they took and gave up
        env.eventually(() -> describe(env, group).groupState() == GroupState.STABLE);
        ConsumerGroupDescription described = describe(env, group);
        env.equal("type", GroupType.CONSUMER, described.type());
        env.equal("assignor of most", "uniform", described.partitionAssignor());
        env.equal("members", 3, described.members().size());
        members.remove(2).close();
        until(env, members, 3, 3);
        members.get(0).subscribe(List.of(topic, env.topic(2, Map.of())));
        until(env, members, 4, 4);
        env.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(8))).all().get();
        until(env, members, 5, 5);
    }

    private static void regex(Env env) throws Exception {
        String topic = env.topic(2, Map.of());
        String group = env.name("g");
        KafkaConsumer<String, String> reader = member(env, group);
        reader.subscribe(new SubscriptionPattern(topic.substring(0, topic.length() - 1) + "[" + topic.charAt(
            topic.length() - 1) + "]"));
        until(env, List.of(reader), 2);
        reader.unsubscribe();
        reader.subscribe(Pattern.compile(topic + ".*"));
        until(env, List.of(reader), 2);
        reader.unsubscribe();
        reader.subscribe(new SubscriptionPattern("("));
        env.fails("not an expression", () -> {
            for (int i = 0; i < 600; i++) {
                reader.poll(Duration.ofMillis(100));
            }
            return null;
        }, InvalidRegularExpression.class);
    }

    private static void staticMember(Env env) throws Exception {
        String topic = env.topic(2, Map.of());
        String group = env.name("g");
        KafkaConsumer<String, String> one = member(env, group, "group.instance.id", "one");
        KafkaConsumer<String, String> two = member(env, group, "group.instance.id", "two");
        one.subscribe(List.of(topic));
        two.subscribe(List.of(topic));
        until(env, List.of(one, two), 1, 1);
        int epoch = describe(env, group).groupEpoch().get();
        Set<TopicPartition> held = two.assignment();
        two.close();
        KafkaConsumer<String, String> again = member(env, group, "group.instance.id", "two");
        again.subscribe(List.of(topic));
        until(env, List.of(one, again), 1, 1);
        env.equal("same partition", held, again.assignment());
        env.equal("same epoch", epoch, describe(env, group).groupEpoch().get());
        again.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        until(env, List.of(one), 2);
    }

    /** KIP-447 with member epochs: pending until the flip, and an old epoch cannot commit. */
    private static void offsets(Env env) throws Exception {
        TopicPartition source = env.topic();
        TopicPartition sink = env.topic();
        env.send(env.producer(null), source, "0");
        String group = env.name("g");
        KafkaConsumer<String, String> reader = member(env, group);
        reader.subscribe(List.of(source.topic()));
        until(env, List.of(reader), 1);
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
        ConsumerGroupMetadata now = reader.groupMetadata();
        ConsumerGroupMetadata old = new ConsumerGroupMetadata(
            group, now.generationId() + 1, now.memberId(), now.groupInstanceId());
        writer.beginTransaction();
        env.fails("offsets of another epoch", () -> {
            writer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(9)), old);
            return null;
        }, CommitFailedException.class);
        writer.abortTransaction();
        reader.commitSync(Map.of(source, new OffsetAndMetadata(3)));
        env.equal("commit of the member", 3L, reader.committed(Set.of(source)).get(source).offset());
    }

    /** A rolling change of protocol: the group lives on, each record is read. */
    private static void upgradeAndBack(Env env) throws Exception {
        String topic = env.topic(4, Map.of());
        String group = env.name("g");
        KafkaConsumer<String, String> one = join(env, group, "classic");
        KafkaConsumer<String, String> two = join(env, group, "classic");
        one.subscribe(List.of(topic));
        two.subscribe(List.of(topic));
        until(env, List.of(one, two), 2, 2);
        env.equal("before", GroupType.CLASSIC, describe(env, group).type());
        two.close();
        KafkaConsumer<String, String> three = join(env, group, "consumer");
        three.subscribe(List.of(topic));
        until(env, List.of(one, three), 2, 2);
        ConsumerGroupDescription mixed = describe(env, group);
        env.equal("in between", GroupType.CONSUMER, mixed.type());
        env.equal("upgraded members", Set.of(true, false), new HashSet<>(
            mixed.members().stream().map(each -> each.upgraded().get()).toList()));
        one.close();
        until(env, List.of(three), 4);
        KafkaConsumer<String, String> four = join(env, group, "classic");
        four.subscribe(List.of(topic));
        until(env, List.of(three, four), 2, 2);
        three.close();
        until(env, List.of(four), 4);
        env.equal("after", GroupType.CLASSIC, describe(env, group).type());
    }

    private static void administration(Env env) throws Exception {
        TopicPartition where = env.topic();
        String group = env.name("g");
        KafkaConsumer<String, String> reader = member(env, group);
        reader.subscribe(List.of(where.topic()));
        until(env, List.of(reader), 1);
        reader.commitSync(Map.of(where, new OffsetAndMetadata(0)));
        env.that("listed as a consumer group", env.admin().listGroups(
            new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))).all().get().stream()
            .anyMatch(each -> each.groupId().equals(group)));
        env.fails("offsets of a topic that is read", () -> env.admin().deleteConsumerGroupOffsets(
            group, Set.of(where)).all().get(), GroupSubscribedToTopicException.class);
        env.fails("a group with members", () -> env.admin().deleteConsumerGroups(
            List.of(group)).all().get(), GroupNotEmptyException.class);
        reader.close();
        env.equal("empty", GroupState.EMPTY, describe(env, group).groupState());
        env.admin().deleteConsumerGroupOffsets(group, Set.of(where)).all().get();
        env.equal("no offsets", Map.of(), env.admin().listConsumerGroupOffsets(group)
            .partitionsToOffsetAndMetadata().get());
        env.admin().deleteConsumerGroups(List.of(group)).all().get();
    }
}
