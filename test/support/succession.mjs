// A supervisor: starts a borrower, kills it with -9 after a while of making IDs, sets the clock back into that while, and starts the
// next at once. Arguments: the file for all IDs; how far the clock is behind after each one, s.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { setWallClock } from "./wall-clock/setting.mjs";

const [, , file, ...setbacks] = process.argv;
const clock = process.env.WALL_CLOCK_FILE;
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
  setWallClock(clock, -Number(setback));
}
