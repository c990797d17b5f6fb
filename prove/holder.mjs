// A service under fire, as a process of its own: leases a worker ID, makes IDs in bulk, and keeps a log of both that outlives it.
// It goes by the built library, as a program of anybody's would; `maker` names another way of making IDs, to see that one fail.

import { openSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const { maker, options, log, bulk, pause, isCopy } = JSON.parse(process.argv[2]);
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

/** A line of the log. `at`: the number of IDs before it. `time`: the machine's monotonic clock, ms. */
function note(fact) {
  const time = Number(process.hrtime.bigint()) / 1e6;
  writeSync(factLog, `${JSON.stringify({ at: made, time, ...fact })}\n`);
}

function count(error) {
  const code = error?.code ?? String(error);
  errors[code] = (errors[code] ?? 0) + 1;
  if (code === "QUARANTINE") note({ heard: "quarantine" });
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

/** `image`: of the process that this one is a copy of. */
async function boot(image) {
  while (!closing) {
    try {
      generator = await open(options, note, image);
      break;
    } catch (error) {
      count(error);
      image = undefined;
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

/** Tells all that a copy of this process needs, where that can be told now. */
function copy(number) {
  const image = generator?.image?.();
  if (image !== undefined) note({ copied: { number, pending: image.pending } });
  tell({ made, image: image ?? null });
}

/** A line for the crew. */
function tell(words) {
  process.stdout.write(`${JSON.stringify(words)}\n`);
}

const commands = createInterface({ input: process.stdin });
commands.on("close", () => process.exit());
commands.on("line", (line) => {
  const { copied, image } = JSON.parse(line);
  if (image !== undefined) {
    note({ copied: { number: copied, pending: image.pending } });
    void boot(image);
  } else if (copied !== undefined) copy(copied);
  else void end();
});
setInterval(() => {
  note({ errors });
  tell({ made });
}, noteEvery);

tell({ made });
if (!isCopy) await boot();
