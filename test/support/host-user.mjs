// Makes IDs until stdin ends, and appends each ID to the file IDS before it makes the next ones. OPTIONS: those of `snowlease`, as JSON.

import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { snowlease } from "../../dist/index.js";

const ids = await snowlease(JSON.parse(process.env.OPTIONS));
let isOver = false;
process.stdin.resume().on("end", () => (isOver = true));
console.log(ids.lease.workerId);
while (!isOver) {
  const made = [];
  for (let i = 0; i < 20; i++) made.push(await ids.nextAsync());
  appendFileSync(process.env.IDS, made.map((id) => `${id}\n`).join(""));
  await sleep(1);
}
await ids.close();
