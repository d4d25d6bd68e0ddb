package lacuna;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** The admin client: topics, configs, offsets, groups, records (S6, S7, S21). */
final class Administration {
    private Administration() {}

    static void register(Map<String, Main.Scenario> all) {
        all.put("topic_life", Administration::topicLife);
        all.put("topic_configs", Administration::configs);
        all.put("list_offsets", Administration::listOffsets);
        all.put("delete_records", Administration::deleteRecords);
        all.put("groups_and_offsets", Administration::groups);
        all.put("cluster_and_features", Administration::cluster);
        all.put("recreated_topic", Administration::recreated);
        all.put("unknown_transactional_id", Administration::unknownTransaction);
    }

    private static void topicLife(Env env) throws Exception {
        Admin admin = env.admin();
        String name = env.topic(2, Map.of());
        TopicDescription described = admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
        env.equal("partitions", 2, described.partitions().size());
        env.that("topic id", !described.topicId().equals(Uuid.ZERO_UUID));
        env.equal("by id", name, admin.describeTopics(
            org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(described.topicId())))
            .allTopicIds().get().get(described.topicId()).name());
        env.fails("create again", () -> admin.createTopics(
            List.of(new NewTopic(name, 1, (short) 1))).all().get(), TopicExistsException.class);
        env.fails("bad name", () -> admin.createTopics(
            List.of(new NewTopic("a/b", 1, (short) 1))).all().get(), InvalidTopicException.class);
        env.fails("no partitions", () -> admin.createTopics(
            List.of(new NewTopic(env.name("j"), 0, (short) 1))).all().get(), InvalidPartitionsException.class);
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(5))).all().get();
        env.eventually(() -> admin.describeTopics(List.of(name)).allTopicNames().get().get(name)
            .partitions().size() == 5);
        env.fails("fewer partitions", () -> admin.createPartitions(
            Map.of(name, NewPartitions.increaseTo(3))).all().get(), InvalidPartitionsException.class);
        env.that("listed", admin.listTopics().names().get().contains(name));
        admin.deleteTopics(List.of(name)).all().get();
        env.eventually(() -> !admin.listTopics().names().get().contains(name));
        env.fails("delete again", () -> admin.deleteTopics(List.of(name)).all().get(),
            UnknownTopicOrPartitionException.class);
    }

    private static Config config(Env env, ConfigResource resource) throws Exception {
        return env.admin().describeConfigs(List.of(resource)).all().get().get(resource);
    }

    private static void configs(Env env) throws Exception {
        String name = env.topic(1, Map.of("max.message.bytes", "23456"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
        env.equal("set at creation", "23456", config(env, resource).get("max.message.bytes").value());
        env.equal("source", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG,
            config(env, resource).get("max.message.bytes").source());
        ConfigEntry entry = new ConfigEntry("message.timestamp.type", "LogAppendTime");
        env.admin().incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(entry, AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("max.message.bytes", null), AlterConfigOp.OpType.DELETE))))
            .all().get();
        env.eventually(() -> config(env, resource).get("message.timestamp.type").value().equals("LogAppendTime"));
        env.that("back to the default", config(env, resource).get("max.message.bytes").isDefault());
        ConfigEntry unknown = new ConfigEntry("no.such.config", "1");
        env.fails("unknown config", () -> env.admin().incrementalAlterConfigs(Map.of(resource, List.of(
            new AlterConfigOp(unknown, AlterConfigOp.OpType.SET)))).all().get(),
            InvalidConfigurationException.class);
        KafkaProducer<String, String> who = env.producer(null);
        var told = who.send(new ProducerRecord<>(name, 0, 1000L, null, "x")).get();
        env.that("the broker's time is told", told.timestamp() > 1_700_000_000_000L);
    }

    private static long offset(Env env, TopicPartition where, OffsetSpec spec) throws Exception {
        return env.admin().listOffsets(Map.of(where, spec)).all().get().get(where).offset();
    }

    private static void listOffsets(Env env) throws Exception {
        TopicPartition where = env.topic();
        env.equal("earliest of nothing", 0L, offset(env, where, OffsetSpec.earliest()));
        env.equal("latest of nothing", 0L, offset(env, where, OffsetSpec.latest()));
        env.equal("max timestamp of nothing", -1L, offset(env, where, OffsetSpec.maxTimestamp()));
        KafkaProducer<String, String> who = env.producer(null);
        for (long time : new long[] {1000, 3000, 2000}) {
            who.send(new ProducerRecord<>(where.topic(), 0, time, null, "x")).get();
        }
        env.equal("latest", 3L, offset(env, where, OffsetSpec.latest()));
        env.equal("max timestamp", 1L, offset(env, where, OffsetSpec.maxTimestamp()));
        env.equal("at 1000", 0L, offset(env, where, OffsetSpec.forTimestamp(1000)));
        env.equal("at 1001", 1L, offset(env, where, OffsetSpec.forTimestamp(1001)));
        env.equal("at 3001", -1L, offset(env, where, OffsetSpec.forTimestamp(3001)));
        env.equal("earliest local", 0L, offset(env, where, OffsetSpec.earliestLocal()));
        TopicPartition unknown = new TopicPartition(where.topic(), 9);
        env.fails("unknown partition", () -> env.admin().listOffsets(Map.of(unknown, OffsetSpec.latest()),
            new org.apache.kafka.clients.admin.ListOffsetsOptions().timeoutMs(1500)).all().get(),
            UnknownTopicOrPartitionException.class, org.apache.kafka.common.errors.TimeoutException.class);
    }

    private static void deleteRecords(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(null);
        for (int i = 0; i < 10; i++) {
            env.send(who, where, "" + i);
        }
        env.equal("low watermark", 4L, env.admin().deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(4)))
            .lowWatermarks().get(where).get().lowWatermark());
        env.equal("earliest", 4L, offset(env, where, OffsetSpec.earliest()));
        env.equal("read", 6, env.read(where, "read_committed", 4).size());
        env.fails("beyond the end", () -> env.admin().deleteRecords(
            Map.of(where, RecordsToDelete.beforeOffset(11))).all().get(), OffsetOutOfRangeException.class);
    }

    private static void groups(Env env) throws Exception {
        Admin admin = env.admin();
        TopicPartition where = env.topic();
        String group = env.name("g");
        admin.alterConsumerGroupOffsets(group, Map.of(where, new OffsetAndMetadata(7, "note"))).all().get();
        env.equal("listed offsets", Map.of(where, new OffsetAndMetadata(7, "note")),
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
        env.that("listed", admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group)));
        admin.deleteConsumerGroups(List.of(group)).all().get();
        env.fails("delete again", () -> admin.deleteConsumerGroups(List.of(group)).all().get(),
            GroupIdNotFoundException.class);
    }

    private static void cluster(Env env) throws Exception {
        env.that("brokers", !env.admin().describeCluster().nodes().get().isEmpty());
        env.that("cluster id", env.admin().describeCluster().clusterId().get() != null);
        var features = env.admin().describeFeatures().featureMetadata().get();
        env.equal("transaction.version", (short) 2,
            features.finalizedFeatures().get("transaction.version").maxVersionLevel());
        env.that("features' epoch", features.finalizedFeaturesEpoch().orElse(-1L) >= 0);
    }

    private static void recreated(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(env.name("t"));
        env.transaction(who, where, true, "old");
        env.admin().deleteTopics(List.of(where.topic())).all().get();
        env.eventually(() -> {
            env.admin().createTopics(List.of(new NewTopic(where.topic(), 1, (short) 1))).all().get();
            return true;
        });
        env.eventually(() -> env.latest(where, false) == 0);
        KafkaProducer<String, String> fresh = env.producer(env.name("t"));
        env.equal("offset", 0L, env.transaction(fresh, where, true, "new"));
        env.awaitStable(where);
        env.equal("read", List.of("0:new"), env.committed(where));
    }

    private static void unknownTransaction(Env env) throws Exception {
        env.fails("describe", () -> env.describe(env.name("nobody")), TransactionalIdNotFoundException.class);
        env.equal("none listed", 0, env.admin().listTransactions(
            new org.apache.kafka.clients.admin.ListTransactionsOptions()
                .filterProducerIds(Set.of(Long.MAX_VALUE))).all().get().size());
    }
}

/** Lists what only all brokers together know, as Kafka's tools do: groups, then transactional ids. */
final class Listing {
    private Listing() {}

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            TreeSet<String> groups = new TreeSet<>();
            admin.listGroups().all().get().stream().map(GroupListing::groupId).forEach(groups::add);
            System.out.println(String.join(" ", groups));
            TreeSet<String> ids = new TreeSet<>();
            admin.listTransactions().all().get().stream()
                .map(TransactionListing::transactionalId).forEach(ids::add);
            System.out.println(String.join(" ", ids));
        }
    }
}
