import { closeSync, openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const handful = 16;

/** Makes IDs all the time until the lease is lost. It writes each handful to a file before it makes the next one. */
export async function emitUntilLost(ids, path) {
  const file = openSync(path, "a");
  while (ids.lease.state !== "lost") {
    const made = [];
    try {
      while (made.length < handful) made.push(ids.next());
    } catch {
      // The next attempt shows whether the error passes.
    }
    if (made.length > 0) writeSync(file, `${made.join("\n")}\n`);
    await sleep(1);
  }
  closeSync(file);
}
