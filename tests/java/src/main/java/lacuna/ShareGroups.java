package lacuna;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Share groups of KIP-932: several consumers take the records of one partition. */
final class ShareGroups {
    private ShareGroups() {}

    static void register(Map<String, Main.Scenario> all) {
        all.put("share_group_implicit", ShareGroups::implicit);
        all.put("share_group_explicit", ShareGroups::explicit);
        all.put("share_group_members", ShareGroups::members);
        all.put("share_group_transactions", ShareGroups::transactions);
        all.put("share_group_administration", ShareGroups::administration);
    }

    private static void configure(Env env, String group, String... pairs) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (int i = 0; i < pairs.length; i += 2) {
            changes.add(new AlterConfigOp(new ConfigEntry(pairs[i], pairs[i + 1]), AlterConfigOp.OpType.SET));
        }
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        env.admin().incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    private static KafkaShareConsumer<String, String> join(Env env, String group, String topic, String mode) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", env.bootstrap);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", mode);
        var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static void produce(Env env, String topic, int count) throws Exception {
        KafkaProducer<String, String> producer = env.producer(null);
        for (int i = 0; i < count; i++) {
            producer.send(new ProducerRecord<>(topic, 0, null, "v" + i));
        }
        producer.flush();
    }

    private static void committed(Env env, KafkaShareConsumer<String, String> consumer) {
        consumer.commitSync().values().forEach(error -> env.that("commit: " + error, error.isEmpty()));
    }

    private static long offset(Env env, String group, TopicPartition partition) throws Exception {
        var specs = Map.of(group, new ListShareGroupOffsetsSpec());
        var found = env.admin().listShareGroupOffsets(specs).partitionsToOffsetInfo(group).get().get(partition);
        return found == null ? -1 : found.startOffset();
    }

    private static void implicit(Env env) throws Exception {
        String topic = env.topic().topic();
        String group = topic + "-group";
        configure(env, group, "share.auto.offset.reset", "earliest");
        produce(env, topic, 1000);
        try (var consumer = join(env, group, topic, "implicit")) {
            Set<Long> offsets = new HashSet<>();
            env.eventually(() -> {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> {
                    env.that("delivered twice: " + record.offset(), offsets.add(record.offset()));
                    env.that("delivery count", record.deliveryCount().orElseThrow() == 1);
                });
                return offsets.size() == 1000;
            });
            committed(env, consumer);
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        env.eventually(() -> env.kafka || offset(env, group, partition) == 1000); // Kafka reports it later
    }

    private static void explicit(Env env) throws Exception {
        String topic = env.topic().topic();
        String group = topic + "-group";
        configure(env, group, "share.auto.offset.reset", "earliest", "share.delivery.count.limit", "3");
        produce(env, topic, 60);
        Map<Long, Integer> deliveries = new TreeMap<>();
        try (var consumer = join(env, group, topic, "explicit")) {
            Set<Long> done = new HashSet<>();
            env.eventually(() -> {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    int count = deliveries.merge(record.offset(), 1, Integer::sum);
                    env.that("delivery count of " + record.offset(), record.deliveryCount().orElseThrow() == count);
                    AcknowledgeType type = AcknowledgeType.ACCEPT;
                    if (record.offset() % 10 == 3) {
                        type = count < 3 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
                    } else if (record.offset() % 10 == 5) {
                        type = AcknowledgeType.RELEASE; // until the group gives up
                    } else if (record.offset() % 10 == 7) {
                        type = AcknowledgeType.REJECT;
                    }
                    consumer.acknowledge(record, type);
                    if (type != AcknowledgeType.RELEASE || count == 3) {
                        done.add(record.offset());
                    }
                }
                if (!records.isEmpty()) {
                    committed(env, consumer);
                }
                return done.size() == 60;
            });
            env.that("delivered once more", consumer.poll(Duration.ofMillis(500)).isEmpty());
        }
        deliveries.forEach((offset, count) -> {
            int expected = offset % 10 == 3 || offset % 10 == 5 ? 3 : 1;
            env.equal("deliveries of " + offset, expected, count);
        });
        env.eventually(() -> env.kafka || offset(env, group, new TopicPartition(topic, 0)) == 60);
    }

    private static void members(Env env) throws Exception {
        String topic = env.topic().topic();
        String group = topic + "-group";
        configure(env, group, "share.auto.offset.reset", "earliest");
        Set<String> seen = new HashSet<>();
        int[] counts = new int[2];
        try (var one = join(env, group, topic, "implicit"); var two = join(env, group, topic, "implicit")) {
            List<KafkaShareConsumer<String, String>> both = List.of(one, two);
            for (int round = 0; round < 20; round++) {
                produce(env, topic, 50);
                for (int i = 0; i < 2; i++) {
                    for (ConsumerRecord<String, String> record : both.get(i).poll(Duration.ofMillis(100))) {
                        env.that("delivered twice: " + record.offset(), seen.add(record.offset() + ""));
                        counts[i]++;
                    }
                }
            }
            env.eventually(() -> {
                for (int i = 0; i < 2; i++) {
                    for (ConsumerRecord<String, String> record : both.get(i).poll(Duration.ofMillis(100))) {
                        env.that("delivered twice: " + record.offset(), seen.add(record.offset() + ""));
                        counts[i]++;
                    }
                }
                return seen.size() == 1000;
            });
            env.that("one member got nothing: " + counts[0] + ", " + counts[1], counts[0] > 0 && counts[1] > 0);
        }
    }

    private static void transactions(Env env) throws Exception {
        String topic = env.topic().topic();
        String group = topic + "-group";
        configure(env, group, "share.auto.offset.reset", "earliest", "share.isolation.level", "read_committed");
        KafkaProducer<String, String> producer = env.producer(env.name("tx"));
        for (int i = 0; i < 20; i++) {
            producer.beginTransaction();
            for (int n = 0; n < 10; n++) {
                producer.send(new ProducerRecord<>(topic, 0, null, i % 2 == 0 ? "committed" : "aborted"));
            }
            producer.flush();
            if (i % 2 == 0) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
        try (var consumer = join(env, group, topic, "implicit")) {
            int[] got = new int[1];
            env.eventually(() -> {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    env.that("an aborted record was delivered", record.value().equals("committed"));
                    got[0]++;
                }
                return got[0] == 100;
            });
            committed(env, consumer);
            env.that("more than was committed", consumer.poll(Duration.ofMillis(300)).isEmpty());
        }
    }

    private static void administration(Env env) throws Exception {
        String topic = env.topic().topic();
        String group = topic + "-group";
        TopicPartition partition = new TopicPartition(topic, 0);
        configure(env, group, "share.auto.offset.reset", "earliest");
        produce(env, topic, 10);
        Admin admin = env.admin();
        try (var consumer = join(env, group, topic, "implicit")) {
            env.eventually(() -> !consumer.poll(Duration.ofMillis(200)).isEmpty());
            committed(env, consumer);
            var described = admin.describeShareGroups(List.of(group)).describedGroups().get(group).get();
            env.that("state " + described.groupState(), described.groupState() == GroupState.STABLE);
            env.that("members", described.members().size() == 1);
            var assigned = described.members().iterator().next().assignment().topicPartitions();
            env.that("assignment " + assigned, assigned.equals(Set.of(partition)));
            try {
                admin.alterShareGroupOffsets(group, Map.of(partition, 3L)).all().get();
                env.that("altered the offsets of a group with members", false);
            } catch (ExecutionException refused) {
                env.that("" + refused.getCause(), refused.getCause() instanceof GroupNotEmptyException);
            }
        }
        env.eventually(() -> admin.describeShareGroups(List.of(group)).describedGroups().get(group).get()
            .groupState() == GroupState.EMPTY);
        admin.alterShareGroupOffsets(group, Map.of(partition, 3L)).all().get();
        env.that("altered", offset(env, group, partition) == 3);
        admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
        env.eventually(() -> offset(env, group, partition) == -1);
        var listed = admin.listGroups(ListGroupsOptions.forShareGroups()).all().get();
        env.that("not listed: " + listed, listed.stream().anyMatch(each -> each.groupId().equals(group)
            && each.type().orElseThrow() == GroupType.SHARE));
        admin.deleteShareGroups(List.of(group)).all().get();
        listed = admin.listGroups(ListGroupsOptions.forShareGroups()).all().get();
        env.that("still there", listed.stream().noneMatch(each -> each.groupId().equals(group)));
    }
}
