package lacuna;

import java.io.DataInputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.message.EndTxnRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.EndTxnRequest;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.RequestUtils;

/** Zombies, delayed and repeated ends, timeouts, an operator's abort (S4, S5, S8, S9, S21). */
final class Fencing {
    private Fencing() {}

    static void register(Map<String, Main.Scenario> all) {
        all.put("zombie_is_fenced", Fencing::zombie);
        all.put("heir_aborts_the_open_transaction", Fencing::heir);
        all.put("delayed_end_txn_is_refused", Fencing::delayedEnd);
        all.put("retried_end_txn_gets_the_same_answer", Fencing::retriedEnd);
        all.put("transaction_timeout_aborts", Fencing::timeout);
        all.put("operator_aborts_a_transaction", Fencing::operatorAbort);
        all.put("fence_producers", Fencing::fenceProducers);
        all.put("idempotent_producer", Fencing::idempotent);
    }

    private static void zombie(Env env) throws Exception {
        String id = env.name("t");
        TopicPartition where = env.topic();
        KafkaProducer<String, String> zombie = env.producer(id);
        zombie.beginTransaction();
        env.send(zombie, where, "zombie");
        KafkaProducer<String, String> heir = env.producer(id);
        env.fails("commit of the zombie", () -> {
            zombie.commitTransaction();
            return null;
        }, ProducerFencedException.class, InvalidProducerEpochException.class);
        env.fails("begin of the zombie", () -> {
            zombie.beginTransaction();
            return null;
        }, KafkaException.class);
        env.transaction(heir, where, true, "heir");
        env.awaitStable(where);
        env.equal("read", List.of(1 + env.marker() + ":heir"), env.committed(where));
    }

    private static void heir(Env env) throws Exception {
        String id = env.name("t");
        TopicPartition where = env.topic();
        KafkaProducer<String, String> lost = env.producer(id);
        lost.beginTransaction();
        env.send(lost, where, "lost");
        TransactionDescription before = env.describe(id);
        env.producer(id);
        env.awaitStable(where);
        TransactionDescription after = env.describe(id);
        env.equal("producer id", before.producerId(), after.producerId());
        env.that("epoch", after.producerEpoch() > before.producerEpoch());
        env.equal("read", List.of(), env.committed(where));
    }

    /** Seed 004_, KIP-890: the commit of T1 arrives once more while T2 runs. */
    private static void delayedEnd(Env env) throws Exception {
        String id = env.name("t");
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(id);
        who.beginTransaction();
        env.send(who, where, "T1");
        TransactionDescription first = env.describe(id);
        who.commitTransaction();
        who.beginTransaction();
        env.send(who, where, "T2");
        for (int version : new int[] {4, 5}) {
            EndTxnResponse delayed =
                Wire.endTxn(env, id, first.producerId(), first.producerEpoch(), true, version);
            env.equal("delayed commit, v" + version, Errors.PRODUCER_FENCED, delayed.error());
        }
        env.equal("still open", TransactionState.ONGOING, env.describe(id).state());
        who.abortTransaction();
        env.awaitStable(where);
        env.equal("read", List.of("0:T1"), env.committed(where));
    }

    private static void retriedEnd(Env env) throws Exception {
        for (boolean commit : new boolean[] {true, false}) {
            String id = env.name("t");
            TopicPartition where = env.topic();
            KafkaProducer<String, String> who = env.producer(id);
            who.beginTransaction();
            env.send(who, where, "x");
            TransactionDescription now = env.describe(id);
            for (int attempt = 0; attempt < 3; attempt++) {
                EndTxnResponse answer;
                do {
                    answer = Wire.endTxn(env, id, now.producerId(), now.producerEpoch(), commit, 5);
                } while (answer.error() == Errors.CONCURRENT_TRANSACTIONS);
                env.equal("error", Errors.NONE, answer.error());
                env.equal("id", now.producerId(), answer.data().producerId());
                env.equal("epoch", now.producerEpoch() + 1, (int) answer.data().producerEpoch());
                env.awaitStable(where);
            }
            EndTxnResponse other = Wire.endTxn(env, id, now.producerId(), now.producerEpoch(), !commit, 5);
            env.equal("the other outcome", Errors.INVALID_TXN_STATE, other.error());
            env.equal("read", commit ? List.of("0:x") : List.of(), env.committed(where));
        }
    }

    private static void timeout(Env env) throws Exception {
        TopicPartition where = env.topic();
        String id = env.name("t");
        KafkaProducer<String, String> slow = env.producer(id, "transaction.timeout.ms", 5000);
        slow.beginTransaction();
        env.send(slow, where, "slow");
        env.awaitStable(where);
        env.fails("commit after the timeout", () -> {
            slow.commitTransaction();
            return null;
        }, KafkaException.class);
        env.equal("read", List.of(), env.committed(where));
        KafkaProducer<String, String> next = env.producer(id);
        env.transaction(next, where, true, "next");
        env.awaitStable(where);
        env.equal("read", List.of(1 + env.marker() + ":next"), env.committed(where));
    }

    private static void operatorAbort(Env env) throws Exception {
        TopicPartition where = env.topic();
        String id = env.name("t");
        KafkaProducer<String, String> hanging = env.producer(id);
        hanging.beginTransaction();
        env.send(hanging, where, "hanging");
        ProducerState state = env.producers(where).get(0);
        AbortTransactionSpec spec = new AbortTransactionSpec(where, state.producerId(),
            (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0));
        env.admin().abortTransaction(spec).all().get();
        env.awaitStable(where);
        env.equal("read", List.of(), env.committed(where));
        env.equal("no open transaction", true,
            env.producers(where).stream().allMatch(p -> p.currentTransactionStartOffset().isEmpty()));
    }

    private static void fenceProducers(Env env) throws Exception {
        TopicPartition where = env.topic();
        String id = env.name("t");
        KafkaProducer<String, String> who = env.producer(id);
        who.beginTransaction();
        env.send(who, where, "x");
        env.admin().fenceProducers(List.of(id)).all().get();
        env.fails("commit", () -> {
            who.commitTransaction();
            return null;
        }, ProducerFencedException.class, InvalidProducerEpochException.class);
        env.awaitStable(where);
        env.equal("read", List.of(), env.committed(where));
    }

    private static void idempotent(Env env) throws Exception {
        TopicPartition where = env.topic();
        KafkaProducer<String, String> who = env.producer(null, "batch.size", 50, "max.in.flight.requests.per.connection", 5);
        for (int i = 0; i < 2000; i++) {
            who.send(new ProducerRecord<>(where.topic(), 0, null, "" + i));
        }
        who.flush();
        List<String> rows = env.uncommitted(where);
        env.equal("count", 2000, rows.size());
        for (int i = 0; i < 2000; i++) {
            env.equal("record", i + ":" + i, rows.get(i));
        }
        env.equal("last sequence", 1999, env.producers(where).get(0).lastSequence());
    }
}

/** One request on a connection of its own, built from the client's own protocol classes. */
final class Wire {
    private Wire() {}

    static AbstractResponse send(Env env, AbstractRequest request) throws Exception {
        String[] address = env.bootstrap.split(",")[0].split(":");
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "wire", 1);
        ByteBuffer body = RequestUtils.serialize(header.data(), header.headerVersion(), request.data(), request.version());
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            socket.setSoTimeout(15000);
            byte[] bytes = new byte[body.remaining()];
            body.get(bytes);
            socket.getOutputStream().write(ByteBuffer.allocate(4 + bytes.length).putInt(bytes.length).put(bytes).array());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer = in.readNBytes(in.readInt());
            return AbstractResponse.parseResponse(ByteBuffer.wrap(answer), header);
        }
    }

    static EndTxnResponse endTxn(Env env, String id, long producerId, int epoch, boolean commit, int version)
            throws Exception {
        EndTxnRequestData data = new EndTxnRequestData()
            .setTransactionalId(id).setProducerId(producerId).setProducerEpoch((short) epoch).setCommitted(commit);
        short number = (short) version;
        return (EndTxnResponse) send(env, new EndTxnRequest.Builder(data, false, number > 4).build(number));
    }
}
