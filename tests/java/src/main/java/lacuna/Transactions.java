package lacuna;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** TV2 transactions seen from outside (S1, S3, S9, S13 to S18, S21). */
final class Transactions {
    private Transactions() {}

    static void register(Map<String, Main.Scenario> all) {
        all.put("epoch_bumps_at_every_end", Transactions::epochBumps);
        all.put("empty_transactions", Transactions::emptyTransactions);
        all.put("seed_001_interleaved", Transactions::interleaved);
        all.put("last_stable_offset", Transactions::lastStableOffset);
        all.put("seed_004_continue_at_11", Transactions::continueAtEleven);
        all.put("middle_of_a_hole", Transactions::middleOfAHole);
        all.put("aborted_start_middle_tail", Transactions::abortedEverywhere);
        all.put("many_aborted_records", Transactions::manyAborted);
        all.put("atomic_over_partitions", Transactions::atomic);
        all.put("all_codecs", Transactions::allCodecs);
        all.put("describe_transaction_states", Transactions::states);
        all.put("interleaved_producers_and_long_history", Transactions::history);
    }

    /** The finalized transaction.version 2 makes the Java client speak TV2: each end bumps the epoch. */
    private static void epochBumps(Env env) throws Exception {
        String id = env.name("t");
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(id);
        TransactionDescription first = env.describe(id);
        env.that("producer id is not 0", first.producerId() != 0);
        for (int round = 0; round < 6; round++) {
            who.beginTransaction();
            env.send(who, where, "r" + round);
            ProducerState state = env.producers(where).get(0);
            env.equal("epoch of round " + round, first.producerEpoch() + round, state.producerEpoch());
            env.equal("id of round " + round, first.producerId(), state.producerId());
            env.equal("sequence begins at 0", 0, state.lastSequence());
            env.that("transaction is open", state.currentTransactionStartOffset().isPresent());
            if (round % 2 == 0) {
                who.commitTransaction();
            } else {
                who.abortTransaction();
            }
            env.equal("epoch after the end", first.producerEpoch() + round + 1, env.describe(id).producerEpoch());
        }
        int step = 1 + env.marker();
        env.equal("committed", List.of("0:r0", 2 * step + ":r2", 4 * step + ":r4"), env.committed(where));
    }

    private static void emptyTransactions(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(env.name("t"));
        for (boolean commit : new boolean[] {true, false, true}) {
            env.transaction(who, where, commit);
        }
        env.equal("offset", 0L, env.transaction(who, where, true, "x"));
        env.equal("read", List.of("0:x"), env.committed(where));
    }

    private static void interleaved(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> aborted = env.producer(env.name("t"));
        KafkaProducer<String, String> plain = env.producer(null);
        KafkaProducer<String, String> committed = env.producer(env.name("t"));
        aborted.beginTransaction();
        committed.beginTransaction();
        for (int i = 0; i < 3; i++) {
            env.send(aborted, where, "aborted" + i);
            env.send(plain, where, "plain" + i);
            env.send(committed, where, "committed" + i);
        }
        env.equal("nothing stable yet", List.of(), env.committed(where));
        env.equal("read_uncommitted", 9, env.uncommitted(where).size());
        aborted.abortTransaction();
        committed.commitTransaction();
        env.awaitStable(where);
        List<String> kept = List.of(
            "1:plain0", "2:committed0", "4:plain1", "5:committed1", "7:plain2", "8:committed2");
        env.equal("read_committed", kept, env.committed(where));
        env.equal("end", 9L + 2 * env.marker(), env.latest(where, true));
    }

    private static void lastStableOffset(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> plain = env.producer(null);
        KafkaProducer<String, String> open = env.producer(env.name("t"));
        env.send(plain, where, "0");
        open.beginTransaction();
        env.send(open, where, "1");
        env.send(plain, where, "2");
        env.equal("LSO", 1L, env.latest(where, true));
        env.equal("HW", 3L, env.latest(where, false));
        env.equal("before", List.of("0:0"), env.committed(where));
        open.abortTransaction();
        env.awaitStable(where);
        env.equal("after", List.of("0:0", "2:2"), env.committed(where));
    }

    private static String[] values(String stem, int count) {
        String[] values = new String[count];
        for (int i = 0; i < count; i++) {
            values[i] = stem + i;
        }
        return values;
    }

    /** Seed 004_: 10 aborted records and their control record in Kafka, 11 records in Lacuna. */
    private static void continueAtEleven(Env env) throws Exception {
        TopicPartition where = env.topic();
        env.transaction(env.producer(env.name("t")), where, false, values("x", env.kafka ? 10 : 11));
        env.awaitStable(where);
        try (KafkaConsumer<String, String> who = env.consumer("read_committed")) {
            env.equal("nothing to read", List.of(), env.readWith(who, where, 0));
            env.equal("position", 11L, who.position(where));
        }
        env.equal("next offset", 11L, env.send(env.producer(null), where, "next"));
        env.equal("continues", List.of("11:next"), env.committed(where));
    }

    private static void middleOfAHole(Env env) throws Exception {
        TopicPartition where = env.topic();
        env.transaction(env.producer(env.name("t")), where, false, values("x", 10));
        long next = env.send(env.producer(null), where, "next");
        env.awaitStable(where);
        for (long start = 0; start <= next; start++) {
            env.equal("from " + start, List.of(next + ":next"), env.read(where, "read_committed", start));
        }
    }

    private static void abortedEverywhere(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(env.name("t"));
        KafkaProducer<String, String> plain = env.producer(null);
        List<String> kept = new ArrayList<>();
        for (String value : new String[] {"a", "b"}) {
            env.transaction(who, where, false, values("x", 7));
            kept.add(env.send(plain, where, value) + ":" + value);
        }
        env.transaction(who, where, false, values("x", 7));
        env.awaitStable(where);
        env.equal("kept", kept, env.committed(where));
        env.equal("end", 23L + 3 * env.marker(), env.latest(where, true));
    }

    private static void manyAborted(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(env.name("t"), "linger.ms", 5);
        who.beginTransaction();
        for (int i = 0; i < 20_000; i++) {
            who.send(new ProducerRecord<>(where.topic(), 0, null, "aborted " + i));
        }
        who.flush();
        who.abortTransaction();
        env.awaitStable(where);
        env.equal("committed", List.of(), env.committed(where));
        int all = env.uncommitted(where).size();
        env.that("all " + all, env.kafka ? all == 20_000 : all <= 20_000);
    }

    private static void atomic(Env env) throws Exception {
        String topic = env.topic(4, Map.of());
        KafkaProducer<String, String> who = env.producer(env.name("t"));
        for (boolean commit : new boolean[] {false, true}) {
            who.beginTransaction();
            for (int partition = 0; partition < 4; partition++) {
                env.send(who, new TopicPartition(topic, partition), commit ? "yes" : "no");
            }
            if (commit) {
                who.commitTransaction();
            } else {
                who.abortTransaction();
            }
        }
        for (int partition = 0; partition < 4; partition++) {
            TopicPartition where = new TopicPartition(topic, partition);
            env.awaitStable(where);
            env.equal("partition " + partition, List.of(1 + env.marker() + ":yes"), env.committed(where));
        }
    }

    private static void allCodecs(Env env) throws Exception {
        TopicPartition where = env.topic();
        List<String> kept = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            KafkaProducer<String, String> who =
                env.producer(env.name("t"), "compression.type", codec, "linger.ms", 20);
            for (boolean commit : new boolean[] {false, true}) {
                who.beginTransaction();
                List<java.util.concurrent.Future<org.apache.kafka.clients.producer.RecordMetadata>> sent =
                    new ArrayList<>();
                for (int i = 0; i < 50; i++) {
                    sent.add(who.send(new ProducerRecord<>(where.topic(), 0, "k", codec + i)));
                }
                for (int i = 0; i < 50; i++) {
                    if (commit) {
                        kept.add(sent.get(i).get().offset() + ":" + codec + i);
                    }
                }
                if (commit) {
                    who.commitTransaction();
                } else {
                    who.flush();
                    who.abortTransaction();
                }
            }
        }
        env.awaitStable(where);
        env.equal("kept", kept, env.committed(where));
        int all = env.uncommitted(where).size();
        env.that("all " + all, env.kafka ? all == 500 : all >= 250 && all <= 500);
    }

    private static void states(Env env) throws Exception {
        String id = env.name("t");
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(id, "transaction.timeout.ms", 34567);
        TransactionDescription empty = env.describe(id);
        env.equal("state", TransactionState.EMPTY, empty.state());
        env.equal("timeout", 34567L, empty.transactionTimeoutMs());
        env.equal("no start", true, empty.transactionStartTimeMs().isEmpty());
        who.beginTransaction();
        env.send(who, where, "x");
        TransactionDescription ongoing = env.describe(id);
        env.equal("state", TransactionState.ONGOING, ongoing.state());
        env.equal("partitions", Set.of(where), ongoing.topicPartitions());
        env.that("start", ongoing.transactionStartTimeMs().isPresent());
        Collection<TransactionListing> listed = env.admin().listTransactions(
            new org.apache.kafka.clients.admin.ListTransactionsOptions()
                .filterProducerIds(Set.of(ongoing.producerId()))
                .filterStates(Set.of(TransactionState.ONGOING))).all().get();
        env.equal("listed", List.of(id), listed.stream().map(TransactionListing::transactionalId).toList());
        who.commitTransaction();
        env.eventually(() -> env.describe(id).state() == TransactionState.COMPLETE_COMMIT);
        env.equal("partitions", Set.of(), env.describe(id).topicPartitions());
        env.transaction(who, where, false, "y");
        env.eventually(() -> env.describe(id).state() == TransactionState.COMPLETE_ABORT);
        env.equal("no open transaction", true,
            env.producers(where).stream().allMatch(p -> p.currentTransactionStartOffset().isEmpty()));
    }

    /** Three transactional and one plain producer, 40 rounds; outcomes by a fixed pattern. */
    private static void history(Env env) throws Exception {
        TopicPartition where = env.topic();
        List<KafkaProducer<String, String>> writers = List.of(
            env.producer(env.name("t")), env.producer(env.name("t")), env.producer(env.name("t")));
        KafkaProducer<String, String> plain = env.producer(null);
        Map<Long, String> kept = new java.util.TreeMap<>();
        for (int round = 0; round < 40; round++) {
            for (KafkaProducer<String, String> who : writers) {
                who.beginTransaction();
            }
            for (int w = 0; w < 3; w++) {
                String value = round + "-" + w;
                long offset = env.send(writers.get(w), where, value);
                if ((round + w) % 2 == 0) {
                    kept.put(offset, value);
                }
            }
            kept.put(env.send(plain, where, "plain" + round), "plain" + round);
            for (int w = 0; w < 3; w++) {
                if ((round + w) % 2 == 0) {
                    writers.get(w).commitTransaction();
                } else {
                    writers.get(w).abortTransaction();
                }
            }
        }
        env.awaitStable(where);
        List<String> expected = kept.entrySet().stream().map(e -> e.getKey() + ":" + e.getValue()).toList();
        env.equal("kept", expected, env.committed(where));
    }
}
