"use strict";
// The program of @confluentinc/kafka-javascript for the client matrix; tests/compat/README.md says
// what it has to do. Its KafkaJS-like API produces, transacts and rebalances here; what wants
// positions is done with the API of node-rdkafka, which tells them (see rdkafka.js).

const { KafkaJS } = require("@confluentinc/kafka-javascript");
const { headersOf, main, until, text, without } = require("../harness-node/harness.js");
const { commit, eos, holes, holesInside, readAll } = require("./rdkafka.js");

const CODECS = {
  none: KafkaJS.CompressionTypes.None,
  gzip: KafkaJS.CompressionTypes.GZIP,
  snappy: KafkaJS.CompressionTypes.SNAPPY,
  lz4: KafkaJS.CompressionTypes.LZ4,
  zstd: KafkaJS.CompressionTypes.ZSTD,
};

function connect(env) {
  const brokers = env.brokers;
  const logLevel = KafkaJS.logLevel.ERROR;
  return new KafkaJS.Kafka({
    kafkaJS: { clientId: "confluent-kafka-javascript", brokers, logLevel },
  });
}

function toProduce(record, partition) {
  return { key: record.key, value: record.value, headers: headersOf(record), partition };
}

/** Runs `work` with a connected producer, and disconnects it. */
async function using(client, work) {
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.disconnect();
  }
}

async function produce(env, result) {
  for (const compression of Object.values(CODECS)) {
    const messages = env.produce.map((record, index) => toProduce(record, index % 3)); // it changes them
    const kafkaJS = { acks: -1, idempotent: true, compression };
    await using(connect(env).producer({ kafkaJS, "linger.ms": 5 }), (producer) =>
      producer.send({ topic: env.topic("produce"), messages }),
    );
  }
  result.facts.codecs = Object.keys(CODECS);
  await readAll(env, "produce", 3, result);
}

async function transactions(env, result) {
  const kafkaJS = { transactionalId: `${env.prefix}-transactions` };
  await using(connect(env).producer({ kafkaJS, "linger.ms": 5 }), async (producer) => {
    for (const { commit, records } of env.transactions) {
      const transaction = await producer.transaction();
      const messages = records.map((record) => toProduce(record, record.partition));
      await transaction.send({ topic: env.topic("transactions"), messages });
      await (commit ? transaction.commit() : transaction.abort());
    }
  });
  result.facts.aborted = env.transactions.filter(({ commit }) => !commit).length;
  await readAll(env, "transactions", 2, result);
}

/** A consumer of the scenario `group` that adds what it reads, once, to `seen`. */
async function join(env, seen, result) {
  const consumer = connect(env).consumer({
    kafkaJS: {
      groupId: `${env.prefix}-g`,
      fromBeginning: true,
      sessionTimeout: 10_000,
      heartbeatInterval: 300,
      maxWaitTimeInMs: 250,
    },
  });
  await consumer.connect();
  await consumer.subscribe({ topic: env.topic("group") });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      const line = text(message.key, message.value);
      if (!seen.has(line)) result.add("group", partition, line);
      seen.add(line);
    },
  });
  return consumer;
}

function held(consumer) {
  try {
    return consumer.assignment().length;
  } catch {
    return 0; // it says "erroneous state" while it is not yet in the group
  }
}

async function group(env, result) {
  const seen = new Set();
  const consumers = [await join(env, seen, result), await join(env, seen, result)];
  const gone = new Set();
  const leave = async (consumer) => {
    if (!gone.has(consumer)) await consumer.disconnect();
    gone.add(consumer);
  };
  try {
    await until(() => consumers.every((consumer) => held(consumer) === 2));
    result.facts.assigned = consumers.map(held);
    await until(() => seen.size >= 200);
    await leave(consumers[1]);
    await until(() => held(consumers[0]) === 4);
    result.facts.alone = held(consumers[0]);
  } finally {
    for (const consumer of consumers) await leave(consumer);
  }
}

main({
  produce,
  transactions,
  holes,
  holes_inside: holesInside,
  commit,
  group,
  eos,
  legacy: without("librdkafka writes message sets only to brokers older than 0.11"),
});
