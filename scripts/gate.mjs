// Says which test files are in the gate, `npm test`. Only `npm run test:all` runs the others. The gate finds most bugs in a second, and a
// slow machine does not turn it red. CONTRIBUTING.md has the rules.

import { readdirSync } from "node:fs";
import { fail } from "./setup.mjs";

/** Unit tests that are not in the gate, each with the reason. All others are in it. */
const unitsLeftOut = {
  "daemon-mixed-list": "deadlines of some seconds over real connections",
  "daemon-registry": "operation timeouts of a second and less over real connections",
  "daemon-signals": "starts processes, and waits for them by the clock",
  "http-connections": "limits of connections in real seconds, looked at for 10 s",
  "http-fuzz": "thousands of random requests over real connections, for up to a minute",
  "http-processes": "starts processes that race for a socket",
  "http-tls": "limits of handshakes in real seconds",
  "large-pools": "a million records: 20 s, and more on a slow machine",
  "lease-server-histories": "random histories for up to two minutes",
  "own-leases": "histories for as long as a second lasts",
  "redis-processes": "starts processes, and reads what the system says of them",
  "snowflake-histories": "random histories: the generator's own tests find as much in a tenth of the time",
  "socket-folder": "folders and permissions of the machine",
  "sqlite-file": "starts processes, mounts file systems",
  "sqlite-plan": "compares how long claims take",
  "sqlite-processes": "starts processes that write side by side",
  "sqlite-queue": "starts processes that queue, and looks every 2 ms",
  "unix-socket": "waits for 100 ms, then asserts",
};

/**
 * The tests of other kinds that are in the gate. The other files of faults and crowds stop, cut off and restart real servers, and wait
 * for windows of some seconds, so a slow machine turns them red. The other files of e2e start a process of 0.3 s for each question. Unit
 * tests ask the functions below the same questions. Only the fact that a process answers at all is not tested there: the files of e2e in
 * this list test it.
 */
const othersTaken = [
  ..."daemon engine etcd memory mysql oracle postgres redis sqlite zookeeper"
    .split(" ")
    .map((name) => `conformance/${name}`),
  "e2e/cli-ids",
  "e2e/cli-scope",
  "e2e/deploy",
  "e2e/docs",
  "e2e/runtime",
  "faults/before-epoch",
  "faults/clock-back",
  "faults/etcd-round-trips",
  "faults/migrate-own-leases",
  "faults/migrate-sources",
  "faults/narrowed-pool",
  "faults/nemesis",
  "faults/redis-keys",
  "faults/scope",
  "faults/sql-init",
  "faults/sql-interleaved",
  "faults/sql-round-trips",
  "faults/sqlite-check",
  "faults/zookeeper-interleaved",
  "simulation/simulation",
];

const ending = ".test.ts";
const all = readdirSync("test", { encoding: "utf8", recursive: true })
  .filter((file) => file.endsWith(ending))
  .map((file) => file.slice(0, -ending.length))
  .toSorted();
const leftOut = Object.keys(unitsLeftOut).map((name) => `unit/${name}`);
for (const name of [...leftOut, ...othersTaken])
  if (!all.includes(name)) fail(`there is no test/${name}${ending}: mend the lists in scripts/gate.mjs`);

const isInTheGate = (name) => (name.startsWith("unit/") ? !leftOut.includes(name) : othersTaken.includes(name));
const fileOf = (name) => `test/${name}${ending}`;

/** The files of the gate. */
export const gate = all.filter(isInTheGate).map(fileOf);

/** All other test files. */
export const rest = all.filter((name) => !isInTheGate(name)).map(fileOf);
