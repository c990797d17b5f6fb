// Some hosts of a fleet, in one process that a test can kill. Each makes IDs with the last bits of its address, without a lease, until
// the test moves it. From then on it has a lease. It writes every ID to a file before it makes the next handful: one file for the IDs
// without a lease, one for the others.
import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { layouts, snowlease } from "../../dist/index.js";

const [, , optionsText, folder] = process.argv;
const options = JSON.parse(optionsText);
const layout = layouts.westid;
/** The IDs of a tick. */
const handful = 3;
/** How long a host makes IDs in both ways, ms. It is less than the time until an owner's window opens. */
const overlap = 500;
const hosts = new Map();

class OldWay {
  #workerId;
  #file;
  #tick = 0;
  /** The end of the old way, Unix ms. */
  endsAt = Infinity;

  constructor({ name, workerId }) {
    this.#workerId = workerId;
    this.#file = openSync(join(folder, `${name}.old`), "a");
  }

  make() {
    const now = Date.now();
    const tick = layout.tickOf(now);
    if (tick <= this.#tick || now > this.endsAt) return;
    this.#tick = tick;
    const ids = Array.from({ length: handful }, (_, sequence) => layout.encode(tick, this.#workerId, sequence));
    writeSync(this.#file, `${ids.join("\n")}\n`);
  }

  async close() {}
}

class Leased {
  #ids;
  #file;
  made = 0;

  constructor({ name }, ids) {
    this.#ids = ids;
    this.#file = openSync(join(folder, `${name}.leased`), "a");
  }

  get workerId() {
    return this.#ids.lease.workerId;
  }

  make() {
    const ids = [];
    try {
      for (let i = 0; i < handful; i++) ids.push(this.#ids.next());
    } catch {
      // The window is not open yet, or has to be renewed.
    }
    if (ids.length > 0) writeSync(this.#file, `${ids.join("\n")}\n`);
    this.made += ids.length;
  }

  close() {
    return this.#ids.close();
  }
}

/** Leases the host's worker ID. Tries again if the machine is too busy to compare two clocks. */
async function lease(host) {
  for (;;) {
    try {
      return new Leased(host, await snowlease({ ...options, ip: host.address, host: host.name }));
    } catch (error) {
      if (!["CLOCK_SKEW", "REGISTRY_UNAVAILABLE"].includes(error.code)) throw error;
    }
  }
}

const commands = {
  async add({ host, moved }) {
    hosts.set(host.name, moved ? await lease(host) : new OldWay(host));
  },
  /** The old way goes on for a while beside the lease, as if an operator stops a program too late. */
  async move({ host }) {
    const old = hosts.get(host.name);
    old.endsAt = Date.now() + overlap;
    hosts.set(`old ${host.name}`, old);
    const leased = await lease(host);
    hosts.set(host.name, leased);
    return { workerId: leased.workerId, stoppedAt: old.endsAt };
  },
  made: () => {
    const leased = [...hosts].filter(([, host]) => host instanceof Leased);
    return Object.fromEntries(leased.map(([name, { made }]) => [name, made]));
  },
  async close() {
    const all = [...hosts.values()];
    hosts.clear();
    await Promise.all(all.map((host) => host.close()));
  },
};

setInterval(() => {
  for (const host of hosts.values()) host.make();
}, 10);

async function obey({ id, command, ...rest }) {
  try {
    process.send({ id, answer: (await commands[command](rest)) ?? {} });
  } catch (error) {
    process.send({ id, error: `${error.code}: ${error.message}` });
  }
}

process.on("message", (message) => void obey(message));
process.on("disconnect", () => process.exit());
