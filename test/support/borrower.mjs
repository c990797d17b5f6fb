// A program that makes IDs all the time, on the lease of the `snowlease exec` in which it runs. It writes each handful to a file before
// it makes the next one. It does not give up: after an error it starts again, and after a while with a new lease.
import { setTimeout as sleep } from "node:timers/promises";
import { snowlease } from "../../dist/index.js";
import { emitUntilLost } from "./emitting.mjs";

for (;;) {
  try {
    const ids = await snowlease();
    await emitUntilLost(ids, process.argv[2]);
    await ids.close();
  } catch (error) {
    if (process.argv[3] === "report") console.log(error.code);
    await sleep(20);
  }
}
