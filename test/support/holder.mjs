// A service that makes IDs, as a process of its own that tests can kill, stop and give a wrong clock. It takes the options of snowlease()
// as JSON, and writes every ID to a file before it makes the next handful. Tests send it commands over IPC.
import { openSync, writeSync } from "node:fs";
import { snowlease } from "../../dist/index.js";

const [, , optionsText, idFile] = process.argv;
const options = JSON.parse(optionsText);
const file = openSync(idFile, "a");
const handful = 64;

const events = [];
let ids;
let running = false;
let failures = {};

function write(made) {
  if (made.length > 0) writeSync(file, `${made.join("\n")}\n`);
}

/** Makes up to `count` IDs without waiting. Returns the code of the error that ended it, if there was one. */
function make(count) {
  const made = [];
  try {
    while (made.length < count) made.push(ids.next());
    return undefined;
  } catch (error) {
    failures[error.code] = (failures[error.code] ?? 0) + 1;
    return { code: error.code, message: error.message, retryAfterMs: error.details?.retryAfterMs };
  } finally {
    write(made);
  }
}

function state() {
  const { workerId, fence, from, until, state } = ids.lease;
  return { workerId, fence, from, until, state, now: Date.now(), events, failures };
}

const commands = {
  ready: () => ({ now: Date.now() }),
  async start() {
    ids = await snowlease(options);
    const names = ["acquired", "renew-failed", "lost", "switched", "released", "clock.rollback", "clock.jump"];
    for (const name of names) {
      ids.lease.on(name, ({ error, ...facts }) => events.push({ name, ...facts, code: error?.code, at: Date.now() }));
    }
    return state();
  },
  make({ count }) {
    const error = make(count);
    return { ...state(), error };
  },
  /** Makes IDs all the time, from now on, and again after every failure. */
  run() {
    running = true;
    const turn = () => {
      if (!running) return;
      const error = make(handful);
      setTimeout(turn, error === undefined ? 0 : 5);
    };
    turn();
    return state();
  },
  pause() {
    running = false;
    return state();
  },
  /** A whole life in one command, so that nothing in it waits for the test. */
  async live({ ms }) {
    const began = await commands.start();
    const end = performance.now() + ms;
    let error;
    do error = make(handful);
    while (performance.now() < end && error === undefined);
    const ended = state();
    await ids.close();
    return { ...ended, began, error };
  },
  state,
  async renew() {
    await ids.lease.renew();
    return state();
  },
  async close() {
    running = false;
    await ids.close();
    return state();
  },
};

async function obey({ id, command, ...rest }) {
  try {
    process.send({ id, answer: await commands[command](rest) });
  } catch (error) {
    const { code, message, retryable, details } = error;
    process.send({ id, error: { code, message, retryable, details } });
  }
}

process.on("message", (message) => void obey(message));
process.on("disconnect", () => process.exit());
