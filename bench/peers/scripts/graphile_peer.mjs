// graphile-worker with its local queue. The protocol is described in protocol.py, and this follows it line by line.

import { openSync, readFileSync, readSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";

// The package lies in the folder this is started in, not beside this file.
const require = createRequire(`${process.cwd()}/`);
const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { Client } = require("pg");

const SLOT = 16;
const TICK_MS = 10;
const DEFAULTS = { jobs: 0, seconds: 0, interval: 0.05, batch: 1000, process: 0, processes: 1, patience: 30 };

const now = () => (performance.timeOrigin + performance.now()) / 1000;
const payload = (number) => ({ number, text: "x".repeat(75) });
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

class Board {
  constructor(path, process, processes) {
    this.process = process;
    this.size = SLOT * processes;
    this.file = openSync(path, "r+");
  }

  post(handled) {
    writeSync(this.file, String(handled).padStart(SLOT), SLOT * this.process);
  }

  // The sum; null while someone is missing.
  total() {
    const bytes = Buffer.alloc(this.size);
    readSync(this.file, bytes, 0, this.size, 0);
    const slots = bytes.toString().replaceAll("\0", " ").match(/.{16}/g);
    return slots.every((slot) => slot.trim()) ? slots.reduce((sum, slot) => sum + Number(slot), 0) : null;
  }
}

async function setup({ utils }) {
  await utils.migrate();
  return {};
}

async function enqueueOne({ utils, left }, order) {
  let number = 0;
  let spent = 0;
  const began = performance.now();
  while ((spent = (performance.now() - began) / 1000) < order.seconds) {
    await utils.addJob("noop", payload(number));
    number += 1;
  }
  return { jobs: number, seconds: spent, stored: await left() };
}

async function enqueueBulk({ utils, left }, order) {
  const began = performance.now();
  for (let start = 0; start < order.jobs; start += order.batch) {
    const size = Math.min(order.batch, order.jobs - start);
    const jobs = Array.from({ length: size }, (_, n) => ({ identifier: "noop", payload: payload(start + n) }));
    await utils.addJobs(jobs);
  }
  return { jobs: order.jobs, seconds: (performance.now() - began) / 1000, stored: await left() };
}

async function drain(client, order) {
  return work(client, order, null);
}

async function latency(client, order) {
  const starts = [];
  return { ...(await work(client, order, starts)), starts };
}

async function trickle({ utils }, order) {
  const returns = [];
  const began = performance.now();
  for (let number = 0; number < order.jobs; number += 1) {
    await sleep(Math.max(0, began + number * order.interval * 1000 - performance.now()));
    await utils.addJob("noop", payload(number));
    returns.push(now());
  }
  return { returns };
}

async function work({ left, worker }, order, starts) {
  const tally = { handled: 0, sum: 0, began_at: null };
  const board = new Board(order.board, order.process, order.processes);
  await left();
  board.post(0);
  await until(() => board.total() !== null, order.patience, "the other processes did not start");
  const runner = await run({
    preset: { worker },
    logger,
    noHandleSignals: true,
    taskList: {
      noop: async ({ number }) => {
        if (starts) starts.push([number, now()]);
        tally.began_at ??= now();
        tally.handled += 1;
        tally.sum += number;
      },
    },
  });
  const end = await watch(left, order, tally, board);
  await runner.stop();
  return { ...tally, ...end };
}

async function watch(left, order, tally, board) {
  let seen = -1;
  let changed = performance.now();
  for (;;) {
    await sleep(TICK_MS);
    board.post(tally.handled);
    const total = board.total() ?? 0;
    if (total !== seen) [seen, changed] = [total, performance.now()];
    if (total >= order.jobs && (await left()) === 0) return { ended_at: now(), left: 0 };
    if (performance.now() - changed > order.patience * 1000) return { ended_at: null, left: await left() };
  }
}

async function until(condition, seconds, complaint) {
  const deadline = performance.now() + seconds * 1000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(complaint);
    await sleep(5);
  }
}

const VERBS = {
  setup,
  enqueue_one: enqueueOne,
  enqueue_bulk: enqueueBulk,
  fill: enqueueBulk,
  drain,
  latency,
  trickle,
};

const verb = process.argv[2];
if (process.argv.length !== 3 || !VERBS[verb]) {
  console.error(`one verb wanted, of: ${Object.keys(VERBS).join(", ")}`);
  process.exit(1);
}
const order = { ...DEFAULTS, ...JSON.parse(readFileSync(0, "utf8")) };
const { concurrentJobs, localQueueSize, completeJobBatchDelay } = order.options;
const worker = {
  connectionString: order.store,
  concurrentJobs,
  localQueue: { size: localQueueSize },
  completeJobBatchDelay,
};
const eyes = new Client({ connectionString: order.store });
await eyes.connect();
// A job is deleted when it is done.
const left = async () => {
  const answer = await eyes.query("SELECT count(*)::int AS left FROM graphile_worker._private_jobs");
  return answer.rows[0].left;
};
const utils = await makeWorkerUtils({ connectionString: order.store, logger });
const answer = await VERBS[verb]({ utils, left, worker }, order);
await utils.release();
await eyes.end();
console.log(JSON.stringify(answer));
