"use strict";
// What the Node programs of the matrix have in common: the command line, the workload, a time
// limit for each scenario, and the line of JSON that tells how it went.

const fs = require("node:fs");
const { parseArgs } = require("node:util");

const LIMIT_MS = 30_000;

/** Thrown by a scenario that the client cannot do; the message is the reason. */
class Unsupported extends Error {}

/** What a scenario read, by NAME/PARTITION, and what must be equal on both clusters. */
class Result {
  records = {};
  facts = {};

  add(name, partition, line) {
    (this.records[`${name}/${partition}`] ??= []).push(line);
  }
}

/** What a scenario is run with: the workload, and the names of the runner's topics and groups. */
class Env {
  constructor(options) {
    this.brokers = options.bootstrap.split(",");
    this.prefix = options.prefix;
    Object.assign(this, JSON.parse(fs.readFileSync(options.workload, "utf8")));
  }

  /** The same over SASL_SSL, with topics and groups of its own. */
  secured(name, mechanism) {
    const { COMPAT_SECURED, COMPAT_CA, COMPAT_USER, COMPAT_PASSWORD, COMPAT_TOKEN } = process.env;
    return Object.assign(Object.create(Env.prototype), this, {
      brokers: COMPAT_SECURED.split(","),
      prefix: this.topic(name),
      security: {
        mechanism,
        authorities: fs.readFileSync(COMPAT_CA),
        user: COMPAT_USER,
        password: COMPAT_PASSWORD,
        token: COMPAT_TOKEN,
      },
    });
  }

  topic(name) {
    return `${this.prefix}-${name}`;
  }
}

function show(bytes) {
  return bytes === null || bytes === undefined ? "~" : bytes.toString();
}

/** A record as the contract writes it; headers are pairs of name and bytes. */
function text(key, value, headers = []) {
  const pairs = headers.map(([name, bytes]) => `${name}:${show(bytes)}`).join(",");
  return `${show(key)}=${show(value)}${pairs && "|"}${pairs}`;
}

/** The workload's list of headers as the object that JavaScript clients take. */
function headersOf(record) {
  const headers = {};
  for (const [name, value] of record.headers ?? []) {
    headers[name] = name in headers ? [headers[name], value].flat() : value;
  }
  return headers;
}

/** Waits until `holds()`; the scenario's limit ends it otherwise. */
async function until(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function limited(scenario, env, result) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${LIMIT_MS} ms`)), LIMIT_MS);
  });
  try {
    await Promise.race([scenario(env, result), late]);
  } finally {
    clearTimeout(timer);
  }
}

async function run(name, scenario, env) {
  const result = new Result();
  const began = Date.now();
  try {
    await limited(scenario, env, result);
    return { scenario: name, ok: true, records: result.records, facts: result.facts };
  } catch (error) {
    if (error instanceof Unsupported) return { scenario: name, unsupported: error.message };
    return { scenario: name, ok: false, error: String(error?.message ?? error), records: {} };
  } finally {
    process.stderr.write(`${name} took ${Date.now() - began} ms\n`);
  }
}

/** Runs the scenarios (name: async (env, result) => ...) in turn and prints the line of each. */
async function main(scenarios) {
  const string = { type: "string" };
  const { values } = parseArgs({
    options: { bootstrap: string, workload: string, prefix: string, only: string },
  });
  const env = new Env(values);
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (values.only && values.only !== name) continue;
    fs.writeSync(1, JSON.stringify(await run(name, scenario, env)) + "\n");
  }
  process.exit(0); // also where a scenario that was given up holds a connection
}

/** A scenario that this client cannot do. */
function without(reason) {
  return async () => {
    throw new Unsupported(reason);
  };
}

const MECHANISMS = { scram: "SCRAM-SHA-512", oauthbearer: "OAUTHBEARER" };

/** A scenario over SASL_SSL with each mechanism; none where the runner has no secured listener for it. */
function secured(scenario) {
  if (!process.env.COMPAT_SECURED) return {};
  const made = Object.entries(MECHANISMS).map(([name, mechanism]) => [
    name,
    (env, result) => scenario(env.secured(name, mechanism), result),
  ]);
  return Object.fromEntries(made);
}

module.exports = { headersOf, main, secured, text, until, without };
