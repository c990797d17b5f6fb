// What it takes until there is something to use: of the command line, beside what Node itself takes to start and to end, and of the
// library in a process that runs already. Every start is a process of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { median } from "./bursts.mjs";
import { figure, printTable } from "./table.mjs";

const rounds = 15;
const main = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
const library = new URL("../dist/index.js", import.meta.url).href;
/** Tells when it was started, Unix ms. */
const started = ["-p", "performance.timeOrigin"];

/** Runs Node; how long it took from start to end, ms, and what it printed, and when it was started. */
async function node(args) {
  const begin = performance.timeOrigin + performance.now();
  const child = spawn(process.execPath, args, {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.on("data", (chunk) => (text += chunk));
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`node ${args.join(" ")} ended with ${code}.`);
  return { begin, text, took: performance.timeOrigin + performance.now() - begin };
}

/** The time to the first ID on a new file, and to that of another namespace on it, as a process sees it that has loaded the library, ms. */
function firstIds(path) {
  return `import { snowlease } from ${JSON.stringify(library)};
    const times = [];
    for (const namespace of ["orders", "bills"]) {
      const begin = performance.now();
      const ids = await snowlease({ registry: ${JSON.stringify(`sqlite:${path}`)}, namespace });
      ids.next();
      times.push(performance.now() - begin);
      await ids.close();
    }
    console.log(JSON.stringify(times));`;
}

/** One of each, in turn. */
async function round(folder, i) {
  const registry = `sqlite:${join(folder, "exec.db")}`;
  const bare = await node(["-e", "0"]);
  const inspected = await node([main, "inspect", "1278549019894743040"]);
  const plain = await node(started);
  const executed = await node([main, "exec", "--registry", registry, "--", process.execPath, ...started]);
  const [first, second] = JSON.parse(
    (await node(["--input-type=module", "-e", firstIds(join(folder, `${i}.db`))])).text,
  );
  const delay = ({ text, begin }) => Number(text) - begin;
  return {
    bare: bare.took,
    inspect: inspected.took,
    plain: delay(plain),
    exec: delay(executed),
    added: delay(executed) - delay(plain),
    first,
    second,
  };
}

export async function run() {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-bench-"));
  const seen = [];
  try {
    await round(folder, "warm");
    for (let i = 0; i < rounds; i++) seen.push(await round(folder, i));
  } finally {
    rmSync(folder, { recursive: true });
  }
  const row = (name, key) => {
    const times = seen.map((one) => one[key]).toSorted((a, b) => a - b);
    const ratio = median(seen.map((one) => one[key] / one.bare));
    return [name, figure(median(times)), figure(times[0]), figure(ratio)];
  };
  printTable(
    "Until there is something to use",
    ["", "p50 ms", "least ms", "of node -e 0"],
    [
      row("node -e 0, from start to end", "bare"),
      row("snowlease inspect ID, from start to end", "inspect"),
      row("a program that node starts, until it starts", "plain"),
      row("a program under snowlease exec (sqlite), until it starts", "exec"),
      row("what exec adds to that", "added"),
      row("the first ID of a process, on a new sqlite file", "first"),
      row("the first ID of a second namespace there", "second"),
    ],
  );
}
