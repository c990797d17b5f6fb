// Which test files are the gate, `npm test`, and which ones only `npm run test:all` runs. The gate finds most in a second, and nothing in it
// is red because the machine is slow: CONTRIBUTING.md has the rules.

import { readdirSync } from "node:fs";
import { fail } from "./setup.mjs";

/** Unit tests that rest on processes and files of their own, or on how quick the machine is. All others are in the gate. */
const unitsLeftOut = [
  "daemon-mixed-list",
  "daemon-registry",
  "daemon-signals",
  "http-connections",
  "http-fuzz",
  "http-processes",
  "http-tls",
  "large-pools",
  "lease-server-histories",
  "own-leases",
  "redis-processes",
  "snowflake-histories",
  "socket-folder",
  "sqlite-file",
  "sqlite-plan",
  "sqlite-processes",
  "sqlite-queue",
  "unix-socket",
].map((name) => `unit/${name}`);

/** Of the other kinds, these alone. */
const othersTaken = [
  ..."daemon etcd memory mysql oracle postgres redis sqlite zookeeper".split(" ").map((name) => `conformance/${name}`),
  "e2e/cli-ids",
  "e2e/cli-scope",
  "e2e/deploy",
  "e2e/docs",
  "e2e/runtime",
  "faults/before-epoch",
  "faults/clock-back",
  "faults/migrate-own-leases",
  "faults/migrate-sources",
  "faults/narrowed-pool",
  "faults/nemesis",
  "faults/redis-keys",
  "faults/scope",
  "faults/sql-init",
  "faults/sql-round-trips",
  "faults/sqlite-check",
  "simulation/simulation",
];

const ending = ".test.ts";
const all = readdirSync("test", { encoding: "utf8", recursive: true })
  .filter((file) => file.endsWith(ending))
  .map((file) => file.slice(0, -ending.length))
  .toSorted();
for (const name of [...unitsLeftOut, ...othersTaken])
  if (!all.includes(name)) fail(`there is no test/${name}${ending}: mend the lists in scripts/gate.mjs`);

const isInTheGate = (name) => (name.startsWith("unit/") ? !unitsLeftOut.includes(name) : othersTaken.includes(name));
const fileOf = (name) => `test/${name}${ending}`;

/** The files of the gate. */
export const gate = all.filter(isInTheGate).map(fileOf);

/** All other test files. */
export const rest = all.filter((name) => !isInTheGate(name)).map(fileOf);
