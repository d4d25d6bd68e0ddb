"use strict";
// The scenarios that are done with the API of node-rdkafka: callbacks, and positions.

const { KafkaConsumer, Producer } = require("@confluentinc/kafka-javascript");
const { text } = require("../harness-node/harness.js");

const TIMEOUT_MS = 10_000;
const FEEDS = ["all", "end", "middle", "mixed", "start"];

/** Calls a method that takes a callback (error, value) as its last argument. */
function call(client, method, ...args) {
  return new Promise((resolve, reject) => {
    client[method](...args, (error, value) => (error ? reject(error) : resolve(value)));
  });
}

function common(env) {
  return {
    "client.id": "confluent-kafka-javascript",
    "metadata.broker.list": env.brokers.join(","),
  };
}

/** Runs `work` with a connected consumer, and disconnects it. */
async function consuming(env, group, work) {
  const consumer = new KafkaConsumer(
    {
      ...common(env),
      "group.id": `${env.prefix}-${group}`,
      "enable.auto.commit": false,
      "isolation.level": "read_committed",
      "session.timeout.ms": TIMEOUT_MS,
      "heartbeat.interval.ms": 300,
      "fetch.wait.max.ms": 100,
    },
    { "auto.offset.reset": "earliest" },
  );
  await call(consumer, "connect", {});
  consumer.setDefaultConsumeTimeout(100);
  try {
    return await work(consumer);
  } finally {
    await call(consumer, "disconnect");
  }
}

function line(message) {
  const headers = (message.headers ?? []).flatMap((header) => Object.entries(header));
  return text(message.key, message.value, headers);
}

async function bounds(consumer, topic, partition = 0) {
  const found = await call(consumer, "queryWatermarkOffsets", topic, partition, TIMEOUT_MS);
  return { low: found.lowOffset, high: found.highOffset };
}

function position(consumer, topic, partition = 0) {
  const [{ offset }] = consumer.position([{ topic, partition }]);
  return offset ?? 0; // none yet
}

/** Reads a partition from an offset until its position is the end, or `keep` says false. */
async function read(consumer, topic, partition, from, end, keep) {
  consumer.assign([{ topic, partition, offset: from }]);
  while (position(consumer, topic, partition) < end && from < end) {
    const [message] = await call(consumer, "consume", 1);
    if (message && !keep(message)) break;
  }
  consumer.unassign();
}

async function readAll(env, name, partitions, result) {
  const topic = env.topic(name);
  await consuming(env, `read-${name}`, async (consumer) => {
    for (let partition = 0; partition < partitions; partition++) {
      const { low, high } = await bounds(consumer, topic, partition);
      await read(consumer, topic, partition, low, high, (message) => {
        result.add(name, partition, line(message));
        return true;
      });
    }
  });
}

async function holes(env, result) {
  for (const name of FEEDS) await readAll(env, name, 1, result);
  result.facts.at_end = FEEDS;
}

async function holesInside(env, result) {
  await consuming(env, "inside", async (consumer) => {
    for (const name of ["middle", "mixed"]) {
      const topic = env.topic(name);
      const { low, high } = await bounds(consumer, topic);
      let last;
      for (let tenth = 0; tenth < 10; tenth++) {
        const at = low + Math.floor((tenth * (high - low)) / 10);
        let first;
        await read(consumer, topic, 0, at, high, (message) => {
          first = line(message);
          return false;
        });
        if (first !== undefined && first !== last) result.add(name, 0, first);
        last = first;
      }
    }
  });
}

async function lag(consumer, topic) {
  const [{ offset }] = await call(consumer, "committed", [{ topic, partition: 0 }], TIMEOUT_MS);
  return (await bounds(consumer, topic)).high - offset;
}

async function commit(env, result) {
  const topic = env.topic("mixed");
  await readAndCommit(env, result, (consumer, count) => count === 5);
  await readAndCommit(env, result, (consumer, _, high) => position(consumer, topic) >= high);
  result.facts.lag = await consuming(env, "commit", (consumer) => lag(consumer, topic));
}

/** Goes on where the group is until `enough` of consumer, count and end; commits the position. */
async function readAndCommit(env, result, enough) {
  const topic = env.topic("mixed");
  await consuming(env, "commit", async (consumer) => {
    const { high } = await bounds(consumer, topic);
    consumer.subscribe([topic]);
    for (let count = 0; !enough(consumer, count, high); ) {
      const [message] = await call(consumer, "consume", 1);
      if (!message) continue;
      result.add("mixed", 0, line(message));
      count += 1;
    }
    consumer.commitSync([{ topic, partition: 0, offset: position(consumer, topic) }]);
  });
}

async function eos(env, result) {
  const topic = env.topic("input");
  const producer = new Producer({ ...common(env), "transactional.id": `${env.prefix}-eos` });
  await call(producer, "connect", {});
  await call(producer, "initTransactions", TIMEOUT_MS);
  try {
    result.facts.committed = await consuming(env, "eos", async (consumer) => {
      await moveAll(env, consumer, producer, topic);
      return lag(consumer, topic);
    });
  } finally {
    await call(producer, "disconnect", TIMEOUT_MS);
  }
  await readAll(env, "output", 1, result);
}

/** Moves `input` up to its end, in transactions of ten; the second is aborted and done again. */
async function moveAll(env, consumer, producer, topic) {
  const { high } = await bounds(consumer, topic);
  consumer.subscribe([topic]);
  for (let done = 0, at = 0; at < high; done++) {
    const batch = [];
    while (batch.length < 10 && at < high) {
      batch.push(...(await call(consumer, "consume", 1)));
      at = position(consumer, topic);
    }
    const offsets = [{ topic, partition: 0, offset: at }];
    const ends = done === 1 ? ["abortTransaction", "commitTransaction"] : ["commitTransaction"];
    for (const end of ends) {
      await call(producer, "beginTransaction");
      for (const { key, value } of batch) {
        const upper = Buffer.from(value.toString().toUpperCase());
        producer.produce(env.topic("output"), 0, upper, key);
      }
      await call(producer, "sendOffsetsToTransaction", offsets, consumer, TIMEOUT_MS);
      await call(producer, end, TIMEOUT_MS);
    }
  }
}

module.exports = { commit, eos, holes, holesInside, readAll };
