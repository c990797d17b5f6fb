// A daemon with an embedded registry and an honest fleet: many processes with many leases each, renewed all the time, while the daemon is killed and
// started again, and drained. FLEET_PROCESSES, FLEET_LEASES (of each) and FLEET_SECONDS make it smaller.

import { fork } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openRegistry } from "../dist/registries/index.js";
import { DaemonProcess } from "./daemon-process.mjs";
import { freePort } from "./ports.mjs";
import { figure, printLine, printTable } from "./table.mjs";

const processes = Number(process.env.FLEET_PROCESSES ?? 20);
const leases = Number(process.env.FLEET_LEASES ?? 250);
const seconds = Number(process.env.FLEET_SECONDS ?? 180);
const window = 10_000;
/** 16,384 worker IDs. */
const layout = "timestamp:41,worker:14,sequence:8@1700000000000/1";
const namespace = "fleet";
/** What a kill, and a drain, may disturb, s. */
const aftermath = 20;

const host = fileURLToPath(new URL("fleet-host.mjs", import.meta.url));

class HostProcess {
  #child;
  #ended;

  constructor(options) {
    this.#child = fork(host, [JSON.stringify(options)]);
    this.ready = once(this.#child, "message");
    this.#ended = once(this.#child, "exit").then(() => Promise.reject(new Error("A process of the fleet ended.")));
    this.#ended.catch(() => undefined);
  }

  async ask(task) {
    this.#child.send(task);
    const [answer] = await Promise.race([once(this.#child, "message"), this.#ended]);
    return answer;
  }

  end() {
    this.#child.kill("SIGKILL");
  }
}

/** What the fleet and the daemon did in a while that has just ended. */
class Phases {
  #rows = [];
  #hosts;
  #begin;
  #before;
  lost = 0;
  refused = 0;
  failed = 0;
  errors = new Set();

  constructor(hosts) {
    this.#hosts = hosts;
  }

  begin(daemon) {
    this.#begin = performance.now();
    this.#before = daemon.usage().cpu;
  }

  /** The daemon may be another one than at the beginning: what it used until it was killed is not told. */
  async end(name, daemon, used) {
    const { rss, peak, cpu } = daemon.usage();
    const span = (performance.now() - this.#begin) / 1000;
    const all = await Promise.all(this.#hosts.map((one) => one.ask("report")));
    const times = (key) => Float64Array.from(all.flatMap((told) => told[key])).toSorted();
    for (const { lost, refused, failed, errors } of all) {
      [this.lost, this.refused, this.failed] = [this.lost + lost, this.refused + refused, this.failed + failed];
      for (const error of errors) this.errors.add(error);
    }
    const clients = all.reduce((sum, told) => sum + told.cpu, 0);
    const daemonCpu = used ?? cpu - this.#before;
    process.stderr.write(`snowlease: ${name}: ${Math.round(span)} s, load ${loadavg()[0].toFixed(1)}\n`);
    this.#rows.push({
      name,
      span,
      claims: times("claims"),
      renewals: times("renewals"),
      left: times("left"),
      rss,
      peak,
      daemonCpu,
      clients,
    });
  }

  print() {
    const timings = this.#rows.flatMap(({ name, span, claims, renewals, left }) =>
      [
        ["claims", claims, []],
        ["renewals", renewals, left],
      ]
        .filter(([, times]) => times.length > 0)
        .map(([what, times, [least]]) => [
          `${what}, ${name}`,
          times.length.toLocaleString("en"),
          figure(times.length / span),
          figure(at(times, 0.5)),
          figure(at(times, 0.99)),
          figure(at(times, 1)),
          least === undefined ? "" : figure(least / 1000),
        ]),
    );
    const head = ["", "calls", "a second", "p50 ms", "p99 ms", "slowest ms", "least of the window left, s"];
    printTable(
      `${(processes * leases).toLocaleString("en")} leases of ${window / 1000} s, ${processes} processes`,
      head,
      timings,
    );
    const loads = this.#rows.map(({ name, span, rss, peak, daemonCpu, clients }) => [
      name,
      figure(span),
      `${Math.round((100 * daemonCpu) / span)} %`,
      `${Math.round((100 * clients) / span)} %`,
      figure(rss),
      figure(peak),
    ]);
    printTable(
      "What it took, of one core",
      ["", "s", "daemon's CPU", "clients' CPU", "daemon's MiB at the end", "most MiB"],
      loads,
    );
  }
}

function at(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

function idsIn(files) {
  const ids = files.map((file) => {
    const { buffer, byteOffset, byteLength } = readFileSync(file);
    return new BigUint64Array(buffer.slice(byteOffset, byteOffset + byteLength));
  });
  const all = new BigUint64Array(ids.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const some of ids) {
    all.set(some, end);
    end += some.length;
  }
  all.sort();
  return { made: all.length, twice: all.reduce((sum, id, i) => sum + (i > 0 && id === all[i - 1] ? 1 : 0), 0) };
}

/** Opens the daemon's file only for this: its recovery after a kill is part of what is looked at. */
async function onFile(path, work) {
  const registry = await openRegistry({ kind: "sqlite", path }, { operationTimeout: 5000 });
  try {
    return await work(registry);
  } finally {
    await registry.close();
  }
}

function listLive(registry) {
  return registry.workers(namespace, { state: "live", limit: 10_000 });
}

export async function run() {
  const folder = mkdtempSync(join(tmpdir(), "snowlease-fleet-"));
  const hosts = [];
  let daemon;
  try {
    const path = join(folder, "registry.db");
    await onFile(path, (registry) => registry.init({ namespace, layout }));

    // Each process is a client of its own: it may claim as much at once as one may.
    const tokens = Array.from({ length: processes }, () => randomBytes(16).toString("hex"));
    const lines = tokens.map((token) => `${createHash("sha256").update(token).digest("hex")} worker\n`);
    writeFileSync(join(folder, "tokens"), lines.join(""), { mode: 0o600 });
    const port = await freePort();
    const args = ["--registry", `sqlite:${path}`, "--listen", `127.0.0.1:${port}`, "--tokens", join(folder, "tokens")];
    daemon = await DaemonProcess.start(args);

    const url = `http://127.0.0.1:${port}`;
    const files = tokens.map((_, i) => join(folder, `${i}.ids`));
    for (const [i, token] of tokens.entries()) {
      hosts.push(new HostProcess({ url, token, layout, namespace, leases, window, file: files[i] }));
    }
    await Promise.all(hosts.map(({ ready }) => ready));

    const phases = new Phases(hosts);
    const half = ((seconds - 2 * aftermath) / 2) * 1000;
    phases.begin(daemon);
    await Promise.all(hosts.map((one) => one.ask("claim")));
    await phases.end("at the start", daemon);

    phases.begin(daemon);
    await sleep(half);
    await phases.end("undisturbed", daemon);

    phases.begin(daemon);
    await daemon.end("SIGKILL");
    daemon = await DaemonProcess.start(args);
    await sleep(aftermath * 1000);
    await phases.end(`${aftermath} s from a kill -9`, daemon, daemon.usage().cpu);

    phases.begin(daemon);
    await sleep(half);
    await phases.end("undisturbed again", daemon);

    phases.begin(daemon);
    const drained = await daemon.end("SIGTERM");
    const { complaints } = daemon;
    daemon = await DaemonProcess.start(args);
    await sleep(aftermath * 1000);
    await phases.end(`${aftermath} s from a drain`, daemon, daemon.usage().cpu);

    const live = await onFile(path, listLive);
    const closed = await Promise.all(hosts.map((one) => one.ask("close")));
    const kept = closed.reduce((sum, one) => sum + one.kept, 0);
    const left = await onFile(path, listLive);
    const last = await daemon.end("SIGTERM");
    const { made, twice } = idsIn(files);

    phases.print();
    const exits = [drained, last].map(({ code, took }) => `exit code ${code} after ${Math.round(took)} ms`).join(", ");
    printTable(
      "What came of it",
      ["", "count"],
      [
        ["leases live at the end", live.length],
        ["leases lost", phases.lost],
        ["claims and renewals asked again, since no answer came in time", phases.failed],
        ["IDs made", made.toLocaleString("en")],
        ["IDs refused, since a window had passed", phases.refused],
        ["IDs made twice", twice],
        ["give-backs that failed", kept],
        ["leases live after all was given back", left.length],
        ["complaints in the log of the daemon that was drained", complaints.length],
      ],
    );
    printLine(`Drained: ${exits}. Load of the machine after it: ${loadavg()[0].toFixed(1)}.`);
    for (const error of [...phases.errors].slice(0, 5)) console.log(`  ${error}`);
    for (const line of complaints.slice(0, 5)) console.log(`  ${line}`);
  } finally {
    for (const one of hosts) one.end();
    await daemon?.end("SIGKILL").catch(() => undefined);
    rmSync(folder, { recursive: true });
  }
}
