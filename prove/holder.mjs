// A service under fire, as a process of its own: leases a worker ID, makes IDs in bulk, and keeps a log of both that outlives it.
// It goes by the built library, as a program of anybody's would; `maker` names another way of making IDs, to see that one fail.

import { openSync, writeSync } from "node:fs";

const { maker, options, log, bulk, pause } = JSON.parse(process.argv[2]);
const { open } = await import(`./${maker}.mjs`);

const idLog = openSync(`${log}.ids`, "a");
const factLog = openSync(`${log}.facts`, "a");
const ids = new BigUint64Array(bulk);
const bytes = new Uint8Array(ids.buffer);
const retryPause = 50;
const noteEvery = 500;

/** How many IDs this life has made. */
let made = 0;
/** Error code -> how often. */
const errors = {};
let generator;
let timer;
let closing = false;

/** A line of the log. `at`: the number of IDs before it. */
function note(fact) {
  writeSync(factLog, `${JSON.stringify({ at: made, ...fact })}\n`);
}

function count(error) {
  const code = error?.code ?? String(error);
  errors[code] = (errors[code] ?? 0) + 1;
  // Whatever is done to it: it may try again, or its lease is lost.
  if (!error?.retryable && code !== "LEASE_LOST") note({ strange: `${code}: ${error?.message}` });
}

function turn() {
  try {
    const filled = generator.fill(ids);
    writeSync(idLog, bytes, 0, filled * ids.BYTES_PER_ELEMENT);
    made += filled;
  } catch (error) {
    count(error);
  }
  // One that lost its lease for good begins anew, as a service that its supervisor restarts.
  if (generator.isOver) void boot();
  else timer = setTimeout(turn, pause);
}

async function boot() {
  while (!closing) {
    try {
      generator = await open(options, note);
      break;
    } catch (error) {
      count(error);
      await new Promise((resolve) => setTimeout(resolve, retryPause));
    }
  }
  if (!closing) turn();
  else await generator?.close().catch(count);
}

async function end() {
  closing = true;
  clearTimeout(timer);
  await generator?.close().catch(count);
  note({ errors });
  process.exit();
}

process.on("disconnect", () => process.exit());
process.on("message", () => void end());
setInterval(() => {
  note({ errors });
  process.send({ made });
}, noteEvery);

process.send({ made });
await boot();
