// A supervisor. It starts a borrower, kills it with -9 after it has made IDs for a while, sets the clock back into that time, and starts
// the next one at once. Arguments: the file for all IDs, and how far the clock is behind after each borrower, s.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { renameSync, statSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [, , file, ...setbacks] = process.argv;
const clock = process.env.FAKETIME_TIMESTAMP_FILE;
const borrower = new URL("borrower.mjs", import.meta.url).pathname;
const life = 1200;

writeFileSync(file, "");
for (const setback of setbacks) {
  const before = statSync(file).size;
  const child = spawn(process.execPath, [borrower, file], { stdio: "inherit" });
  while (statSync(file).size === before) await sleep(2);
  await sleep(life);
  child.kill("SIGKILL");
  await once(child, "exit");
  console.log(`killed at ${Date.now()}`);
  writeFileSync(`${clock}.next`, `-${setback}s\n`);
  renameSync(`${clock}.next`, clock);
}
