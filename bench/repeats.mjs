import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generators } from "./peers/generators.mjs";
import { printTable } from "./table.mjs";

/** A process is asked for so many IDs in 5 s, two a millisecond: no generator has to wait for the next one. */
const [count, span] = [10_000, 5000];
const inFullMillisecond = 20_000;

const steady = { ms: span, count };
const usual = { steady: [steady] };
const all = {
  ...usual,
  full: [{ ms: 1, count: inFullMillisecond }],
  back: [steady, { back: 1000, ...steady }],
};

/** What two processes of a kind are: `name` of the generator, none for ours. */
const ours = { workerId: "leased (10 bits)", package: "snowlease" };
const kinds = {
  snowlease: ours,
  "snowlease, closed before the restart": { ...ours, closes: true },
  ...Object.fromEntries(Object.entries(generators).map(([name, kind]) => [name, { package: name, ...kind, name }])),
};

/** Starts a generator's process. It stays until `end`, so that one that starts meanwhile is a second one. */
async function startProcess(kind, job) {
  const env = { ...process.env, NODE_NO_WARNINGS: "1" };
  const file = fileURLToPath(new URL("repeats-process.mjs", import.meta.url));
  const child = fork(file, { serialization: "advanced", env });
  child.send({ ...job, name: kind.name, perMillisecond: count / span });
  const [result] = await once(child, "message");
  const end = async () => {
    const ended = once(child, "exit");
    if (kind.closes && result.refused === undefined) child.send("close");
    else child.kill("SIGKILL");
    await ended;
  };
  return { ...result, end };
}

/** How many IDs there are less how many different ones: in order, equal ones are neighbours. */
function repeated(made) {
  const ids = new BigUint64Array(made.reduce((total, { length }) => total + length, 0));
  let end = 0;
  for (const some of made) {
    ids.set(some, end);
    end += some.length;
  }
  ids.sort();
  return ids.reduce((total, id, i) => (i > 0 && id === ids[i - 1] ? total + 1 : total), 0);
}

/** What processes made in a situation: how often an ID came again, and what else happened. */
function cell(processes, situation = "steady") {
  if (processes === undefined) return "-";
  const refused = processes.find((each) => each.refused !== undefined)?.refused;
  if (refused !== undefined) return `did not start: ${refused}`;
  const results = processes.map(({ situations }) => situations[situation]);
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  const notes = [
    repeated(results.map(({ ids }) => ids)).toLocaleString("en"),
    sum("threw") > 0 && `threw ${sum("threw").toLocaleString("en")}`,
    sum("waited") > 0 && `waited ${sum("waited")} ms`,
  ];
  return notes.filter(Boolean).join(", ");
}

/**
 * Prints how often generators repeat themselves: in two processes at once, in a full millisecond, after their clock was set back, and in a
 * process that takes the place of one that was killed, with its clock 5 s behind. Each by the worker ID that it has by default, and by hand.
 */
export async function run() {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-repeats-"));
  let registries = 0;
  const two = async (kind, ids, { inTurn = false, asked = usual } = {}) => {
    const registry = `sqlite:${join(folder, `${++registries}.db`)}`;
    const start = (i) =>
      startProcess(kind, { id: ids[i], seed: i + 1, pid: kind.pids?.[i], registry, asked: i === 0 ? asked : usual });
    const first = await start(0);
    if (inTurn) await first.end();
    const second = await start(1);
    if (!inTurn) await first.end();
    await second.end();
    return [first, second];
  };
  const row = async ([title, kind]) => {
    const byDefault = kind.isRequired ? undefined : await two(kind, [], { asked: all });
    const byHand = kind.hasNone ? undefined : await two(kind, [1, 2], { asked: all });
    const after = kind.isRequired ? undefined : await two(kind, [], { inTurn: true });
    const afterByHand = kind.hasNone ? undefined : await two(kind, [1, 1], { inTurn: true });
    const alone = (byDefault ?? byHand).slice(0, 1);
    return [
      title,
      versionOf(kind.package),
      kind.workerId,
      cell(byDefault),
      cell(byHand),
      cell(alone, "full"),
      cell(alone, "back"),
      cell(after),
      cell(afterByHand),
    ];
  };
  try {
    const rows = [];
    for (const each of Object.entries(kinds)) rows.push(await row(each));
    const head = [
      "",
      "version",
      "default worker ID",
      "two processes",
      "two, IDs by hand",
      "full millisecond",
      "clock back 1 s",
      "restart, clock back 5 s",
      "restart, ID by hand",
    ];
    const made = `of ${(2 * count).toLocaleString("en")}; in a full millisecond, of ${inFullMillisecond.toLocaleString("en")}`;
    printTable(`IDs that came again, ${made}`, head, rows);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function versionOf(name) {
  const file = name === "snowlease" ? "../package.json" : `peers/node_modules/${name}/package.json`;
  return JSON.parse(readFileSync(new URL(file, import.meta.url), "utf8")).version;
}
