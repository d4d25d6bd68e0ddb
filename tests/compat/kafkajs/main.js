"use strict";
// The kafkajs program of the client matrix; tests/compat/README.md says what it has to do.

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");
const SnappyCodec = require("kafkajs-snappy");
const { headersOf, main, secured, text, until, without } = require("../harness-node/harness.js");

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
};
const FEEDS = ["all", "end", "middle", "mixed", "start"];

function connect(env) {
  return new Kafka({
    clientId: "kafkajs",
    brokers: env.brokers,
    logLevel: logLevel.NOTHING,
    connectionTimeout: 10_000, // 1 s is too short on a machine with more to do
    retry: { initialRetryTime: 50 },
    ...(env.security && secure(env.security)),
  });
}

function secure({ mechanism, authorities, user, password, token }) {
  const sasl =
    mechanism === "OAUTHBEARER"
      ? { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: token }) }
      : { mechanism: mechanism.toLowerCase(), username: user, password };
  return { ssl: { ca: [authorities] }, sasl };
}

function toProduce(record, partition) {
  return { key: record.key, value: record.value, headers: headersOf(record), partition };
}

function line(message) {
  const headers = Object.entries(message.headers).flatMap(([name, values]) =>
    [values].flat().map((value) => [name, value]),
  );
  return text(message.key, message.value, headers);
}

/** Runs `work` with a connected producer or the like, and disconnects it. */
async function using(client, work) {
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.disconnect();
  }
}

async function bounds(env, name) {
  const found = await using(connect(env).admin(), (admin) => admin.fetchTopicOffsets(env.topic(name)));
  return Object.fromEntries(
    found.map(({ partition, low, high }) => [partition, { low: Number(low), high: Number(high) }]),
  );
}

async function lag(env, group, name) {
  const topic = env.topic(name);
  const [{ partitions }] = await using(connect(env).admin(), (admin) =>
    admin.fetchOffsets({ groupId: `${env.prefix}-${group}`, topics: [topic] }),
  );
  return (await bounds(env, name))[0].high - Number(partitions[0].offset);
}

function newConsumer(env, group, options = {}) {
  return connect(env).consumer({
    groupId: `${env.prefix}-${group}`,
    sessionTimeout: 10_000,
    heartbeatInterval: 300,
    rebalanceTimeout: 10_000,
    maxWaitTimeInMs: 100,
    ...options,
  });
}

/** What a consumer came to: aborted records and markers count too, as kafkajs tells them. */
class Positions {
  #of = {};

  constructor(consumer) {
    const { END_BATCH_PROCESS } = consumer.events;
    consumer.on(END_BATCH_PROCESS, ({ payload: { partition, firstOffset, lastOffset } }) => {
      if (firstOffset !== null) this.#of[partition] = Number(lastOffset) + 1;
    });
  }

  atEnd(ends) {
    return Object.entries(ends).every(([partition, { high }]) => (this.#of[partition] ?? 0) >= high);
  }
}

/** Reads a topic from the start to its end with a group of its own. */
async function readAll(env, name, result) {
  const ends = await bounds(env, name);
  await using(newConsumer(env, `read-${name}`), async (consumer) => {
    const positions = new Positions(consumer);
    await consumer.subscribe({ topic: env.topic(name), fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        for (const message of batch.messages) result.add(name, batch.partition, line(message));
      },
    });
    await until(() => positions.atEnd(ends));
  });
}

async function produce(env, result) {
  const options = { idempotent: true, maxInFlightRequests: 1 };
  await using(connect(env).producer(options), async (producer) => {
    for (const compression of Object.values(CODECS)) {
      const messages = env.produce.map((record, index) => toProduce(record, index % 3));
      await producer.send({ topic: env.topic("produce"), acks: -1, compression, messages });
    }
  });
  result.facts.codecs = Object.keys(CODECS);
  await readAll(env, "produce", result);
}

function newTransactional(env, name) {
  return connect(env).producer({
    transactionalId: `${env.prefix}-${name}`,
    idempotent: true,
    maxInFlightRequests: 1,
  });
}

async function transactions(env, result) {
  await using(newTransactional(env, "transactions"), async (producer) => {
    for (const { commit, records } of env.transactions) {
      const transaction = await producer.transaction();
      const messages = records.map((record) => toProduce(record, record.partition));
      await transaction.send({ topic: env.topic("transactions"), messages });
      await (commit ? transaction.commit() : transaction.abort());
    }
  });
  result.facts.aborted = env.transactions.filter(({ commit }) => !commit).length;
  await readAll(env, "transactions", result);
}

async function holes(env, result) {
  for (const name of FEEDS) await readAll(env, name, result);
  result.facts.at_end = FEEDS;
}

async function holesInside(env, result) {
  for (const name of ["middle", "mixed"]) {
    const { low, high } = (await bounds(env, name))[0];
    let last;
    for (let tenth = 0; tenth < 10; tenth++) {
      const at = low + Math.floor((tenth * (high - low)) / 10);
      const first = await firstFrom(env, name, at, high);
      if (first === undefined) break; // nor can there be any behind the others
      if (first !== last) result.add(name, 0, first);
      last = first;
    }
  }
}

/** The first record at or behind an offset; undefined if there is none before the end. */
async function firstFrom(env, name, at, high) {
  const topic = env.topic(name);
  return using(newConsumer(env, `inside-${name}-${at}`), async (consumer) => {
    const positions = new Positions(consumer);
    let first;
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch, isStale }) => {
        const found = isStale() ? undefined : batch.messages.find(({ offset }) => Number(offset) >= at);
        if (found) first ??= line(found);
      },
    });
    consumer.seek({ topic, partition: 0, offset: String(at) });
    await until(() => first !== undefined || positions.atEnd({ 0: { high } }));
    return first;
  });
}

async function commit(env, result) {
  const ends = await bounds(env, "mixed");
  await readAndCommit(env, result, 5, ends);
  await readAndCommit(env, result, Infinity, ends);
  result.facts.lag = await lag(env, "commit", "mixed");
}

/** Goes on where the group is, for so many messages or to the end. */
async function readAndCommit(env, result, count, ends) {
  const topic = env.topic("mixed");
  await using(newConsumer(env, "commit"), async (consumer) => {
    const positions = new Positions(consumer);
    let next;
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        for (const message of batch.messages.slice(0, count)) {
          result.add("mixed", 0, line(message));
          next = Number(message.offset) + 1;
          count -= 1;
        }
      },
    });
    await until(() => count === 0 || positions.atEnd(ends));
    const offset = String(count === 0 ? next : ends[0].high);
    await consumer.commitOffsets([{ topic, partition: 0, offset }]);
  });
}

/** One of the two consumers of the scenario `group`; none reads before `gate.open`. */
class Member {
  held = 0;

  constructor(env, gate, result) {
    this.topic = env.topic("group");
    this.gate = gate;
    this.result = result;
    this.consumer = newConsumer(env, "g");
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload: { memberAssignment } }) => {
      this.held = (memberAssignment[this.topic] ?? []).length;
    });
  }

  async run() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topic: this.topic, fromBeginning: true });
    await this.consumer.run({ eachBatch: (payload) => this.#read(payload) });
  }

  async #read({ batch, heartbeat }) {
    while (!this.gate.open) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      await heartbeat(); // throws at a rebalance, and the batch comes again
    }
    for (const message of batch.messages) {
      this.result.add("group", batch.partition, line(message));
      this.gate.read += 1;
    }
  }
}

async function group(env, result) {
  const gate = { open: false, read: 0 };
  const members = [new Member(env, gate, result), new Member(env, gate, result)];
  try {
    await Promise.all(members.map((member) => member.run()));
    await until(() => members.every(({ held }) => held === 2));
    result.facts.assigned = members.map(({ held }) => held);
    gate.open = true;
    await until(() => gate.read >= 200);
    await members[1].consumer.disconnect();
    await until(() => members[0].held === 4);
    result.facts.alone = members[0].held;
  } finally {
    await Promise.all(members.map(({ consumer }) => consumer.disconnect()));
  }
}

async function eos(env, result) {
  const ends = await bounds(env, "input");
  const topic = env.topic("input");
  const groupId = `${env.prefix}-eos`;
  await using(newTransactional(env, "eos"), (producer) =>
    using(newConsumer(env, "eos"), async (consumer) => {
      const transform = async (messages, offset, end) => {
        const transaction = await producer.transaction();
        if (messages.length) await transaction.send({ topic: env.topic("output"), messages });
        const topics = [{ topic, partitions: [{ partition: 0, offset: String(offset) }] }];
        await transaction.sendOffsets({ consumerGroupId: groupId, topics });
        await transaction[end]();
      };
      await moveAll(consumer, topic, ends, transform);
    }),
  );
  result.facts.committed = await lag(env, "eos", "input");
  await readAll(env, "output", result);
}

/** Hands out tens of upper-cased messages up to the end; the second ten is aborted first. */
async function moveAll(consumer, topic, ends, transform) {
  const positions = new Positions(consumer);
  let waiting = [];
  let done = 0;
  const move = async (offset) => {
    if (done++ === 1) await transform(waiting, offset, "abort");
    await transform(waiting, offset, "commit");
    waiting = [];
  };
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const { key, value, offset } of batch.messages) {
        waiting.push({ key, value: value.toString().toUpperCase(), partition: 0 });
        if (waiting.length === 10) await move(Number(offset) + 1);
      }
    },
  });
  await until(() => positions.atEnd(ends));
  await move(ends[0].high);
}

main({
  produce,
  transactions,
  holes,
  holes_inside: holesInside,
  commit,
  group,
  eos,
  legacy: without("kafkajs writes message sets only to brokers older than 0.11"),
  ...secured(eos),
});
