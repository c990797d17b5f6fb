// A program that makes IDs all the time, on the lease of the `snowlease exec` that it runs in, and writes each handful to a file
// before it makes the next. It does not give up: after an error it starts again, and after a while with a new lease.
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { snowlease } from "../../dist/index.js";

const file = openSync(process.argv[2], "a");
const handful = 16;

for (;;) {
  try {
    const ids = await snowlease();
    while (ids.lease.state !== "lost") {
      const made = [];
      try {
        while (made.length < handful) made.push(ids.next());
      } catch {
        // The next turn finds out whether it passes.
      }
      if (made.length > 0) writeSync(file, `${made.join("\n")}\n`);
      await sleep(1);
    }
    await ids.close();
  } catch (error) {
    if (process.argv[3] === "report") console.log(error.code);
    await sleep(20);
  }
}
